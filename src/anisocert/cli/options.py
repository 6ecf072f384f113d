"""Options on the command line: those of a run, from their declarations, and others that several commands share."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from anisocert.options import NETWORK, Options, check, choices, plain

if TYPE_CHECKING:
    from anisocert.runs import Configuration
    from anisocert.work import Job

ONLY_CHECK = ContextVar("ONLY_CHECK", default=False)
DECLARED = {one.name: one for one in fields(Options)}
KINDS = get_type_hints(Options)
MOST_METAVAR = 18  # characters: the column of longer ones would leave no room for the help
Asked = dict[str, Any]
Command = Callable[..., None]


def takes(*names: str, **changed: Any) -> Callable[[Command], Command]:
    """Give a command options of a run, which it gets as one dictionary, its parameter `asked`.

    changed: what this command declares differently, as in n=option(10_000, "Votes per digit.").
    """

    def decorate(command: Command) -> Command:
        own, hints = inspect.signature(command).parameters, get_type_hints(command, include_extras=True)
        ours = [_parameter(name, changed.get(name)) for name in DECLARED if name in {*names, *changed}]
        theirs = [one.replace(annotation=hints[name], kind=one.KEYWORD_ONLY) for name, one in own.items()]
        parameters = sorted((*ours, *theirs[1:]), key=lambda one: one.default is not one.empty)  # required ones first

        @functools.wraps(command)
        def typed(**given: Any) -> None:
            command(asked={one.name: _read(one.name, given.pop(one.name)) for one in ours}, **given)

        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        typed.__annotations__ = {one.name: one.annotation for one in parameters}
        return typed

    return decorate


def _parameter(name: str, changed: Any = None) -> inspect.Parameter:
    """An option as typer reads it. Choices and lists are read as texts: the configuration checks them."""
    declared, kind = DECLARED[name], plain(KINDS[name])
    said = {**declared.metadata, **(changed.metadata if changed is not None else {})}
    default = declared.default if changed is None or changed.default is MISSING else changed.default
    metavar = (
        f"<{kind.__name__} >={said['least']}>" if "least" in said else said.get("metavar") or "|".join(choices(kind))
    )
    if choices(kind) or get_origin(kind) is tuple:
        kind = str
    info = typer.Option(
        *([f"--{name.replace('_', '-')}"] if kind is bool else ()), help=said["help"],
        metavar=metavar if 0 < len(metavar) <= MOST_METAVAR else None, rich_help_panel=said.get("panel"),
    )  # fmt: skip
    if name == "model":
        info = typer.Argument(help=said["help"])
    if said.get("checkpoint") or default is None:
        default, kind = None, kind | None
    given = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=given, annotation=Annotated[kind, info])


def _read(name: str, value: Any) -> Any:
    """A typed value as the configuration takes it."""
    if get_origin(plain(KINDS[name])) is tuple:
        value = numbers(f"--{name}", value)
    check(DECLARED[name], KINDS[name] | None, value)
    place = DECLARED[name].metadata.get("place")
    return value if place is None or value is None else absolute(value, new=place == "path")


def configured(asked: Asked, tell: Callable[[str], None] = typer.echo, **known: Any) -> "Configuration":
    """The configuration of what was typed; sigma defaults to what the network was trained with, which is reported."""
    from anisocert.errors import ArgumentError
    from anisocert.models import Codebook
    from anisocert.optimize import FOR_EVERYONE, Cascade
    from anisocert.runs import Configuration
    from anisocert.runs.loading import trained_sigma

    if asked.get("sigma", 0) is None and asked.get("codebook") is not None:
        book, first = Codebook.load(asked["codebook"]), asked.get("method") == Cascade.name
        asked = asked | {"sigma": book.largest if first else book.sigma}
        whose = "largest noise" if first else "noise of the selector"
        tell(f"sigma {asked['sigma']:g}, the {whose} of {asked['codebook']}")
    if asked.get("sigma", 0) is None:
        sigma = trained_sigma(asked["model"], asked["norm"], asked["denoise"])
        tell(f"sigma {sigma:g}, which {asked['model']} was trained with")
        asked = asked | {"sigma": sigma}
    configuration = Configuration(**asked, **known)
    # Of what is asked for now: earlier versions took them, and their runs still open.
    for name, unset in (("paper", False), ("iterations", None), ("limit", None)):
        if configuration.method in FOR_EVERYONE and getattr(configuration, name) != unset:
            raise ArgumentError(
                f"expected no --{name} with --method {configuration.method}, which searches for no theta, got one"
            )
    return configuration


def loaded(configuration: "Configuration", tell: Callable[[str], None] = typer.echo) -> "Job":
    """What a configuration names, with a line about whatever was done to the network to make it fit."""
    from anisocert.work import load_job

    job = load_job(configuration)
    for note in (*job.examples.notes, *job.metadata.get("notes", ())):
        tell(f"note: {note}")
    return job


MemoryPrefer = Annotated[str, typer.Option("--memory-prefer", help=DECLARED["memory_prefer"].metadata["help"])]
_network = functools.partial(typer.Option, rich_help_panel=NETWORK)
Precision = Annotated[str | None, _network(help="float32 or bfloat16. Default: what is fast here.")]
Compile = Annotated[bool | None, _network(help="Use torch.compile. Default: where it pays.")]
Rows = Annotated[int | None, _network(help="Votes per network call. Default: as many as fit.")]
Grid = Annotated[
    float | None, _network(help="Round noisy inputs to multiples of this; 0: plain float32 noise. Default: 2^-12.")
]
Device = Annotated[str, _network(help="auto, cpu, cuda, cuda:1, ...")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there, even if anisocert did not write it.")]
# For commands that read a run, which may name files but no code.
RunModel = Annotated[
    str | None,
    typer.Option("--model", help="The network, if not where the run says; a function must be typed here."),
]
RunDenoise = Annotated[
    str | None,
    typer.Option("--denoise", help="The run's denoiser, if not where the run says; a function must be typed here."),
]
RunCodebook = Annotated[str | None, typer.Option("--codebook", help="The run's codebook, if not where the run says.")]
RunSelector = Annotated[str | None, typer.Option("--selector", help="The run's selector, if not where the run says.")]
RunData = Annotated[str | None, typer.Option("--data", help="The run's data, if not where the run says.")]


def checked() -> None:
    """Called by a command once its options are checked and nothing is loaded; ends it if only the check is wanted."""
    if ONLY_CHECK.get():
        raise typer.Exit


def memory_there(place: str | None) -> str | None:
    """The path or URL of a memory, where there is one."""
    from anisocert.memory import Memory, shown

    if place is not None and not Memory.exists(place):
        raise typer.BadParameter(f"expected a certificate memory, got {shown(place)}, which does not exist")
    return place


RunMemory = Annotated[
    str | None,
    typer.Option("--memory", help="The run's memory, if not a file where the run says.", callback=memory_there),
]


def absolute(place: str, new: bool = False) -> str:
    """A file or folder by its absolute path, so that a run can be resumed from elsewhere; a name or URL as it is.

    new: it may be a file that does not exist yet, and is not a name.
    """
    from anisocert.data import CATALOG

    if "://" in place:
        return place
    return str(Path(place).resolve()) if new or (place not in CATALOG and Path(place).exists()) else place


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Numbers separated by commas."""
    from anisocert.errors import ArgumentError

    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ArgumentError(f"expected {option} as numbers separated by commas, got {text!r}") from error


def seconds(text: str | None) -> float | None:
    """A time budget, as in 90, 10m or 2h."""
    from anisocert.errors import ArgumentError

    if text is None:
        return None
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    try:
        found = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ArgumentError(f"expected --time-budget as in 90, 10m or 2h, got {text!r}")
    return found
