"""Options on the command line: those of a run, from their declarations, and others that several commands share."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from anisocert.errors import ArgumentError
from anisocert.options import NETWORK, Computing, Options, check, choices, plain

ONLY_CHECK = ContextVar("ONLY_CHECK", default=False)
COMPUTING = tuple(option.name for option in fields(Computing))
DECLARED = {option.name: option for option in (*fields(Options), *fields(Computing))}
TYPES = get_type_hints(Options) | get_type_hints(Computing)
MOST_METAVAR = 18  # characters: the column of longer ones would leave no room for the help
Asked = dict[str, Any]
Command = Callable[..., None]


def takes(*names: str, **changed: Any) -> Callable[[Command], Command]:
    """Give a command options of a run, which it gets as one dictionary, its parameter `asked`.

    changed: what this command declares differently, as in n=option(10_000, "Votes per digit.").
    """
    wanted = [option for name, option in DECLARED.items() if name in {*names, *changed}]
    parameters = [_parameter(option, TYPES[option.name], changed.get(option.name)) for option in wanted]
    return _gathering("asked", parameters, lambda values: {name: _read(name, value) for name, value in values.items()})


def declared(into: str, kind: type[Any]) -> Callable[[Command], Command]:
    """Give a command options of its own, the fields of a dataclass; it gets one of these as its parameter `into`."""
    hints = get_type_hints(kind)
    return _gathering(
        into, [_parameter(option, hints[option.name]) for option in fields(kind)], lambda values: kind(**values)
    )


def finds(*names: str) -> Callable[[Command], Command]:
    """Give a command that reads a run options for where its files are; it gets them as one dictionary, `places`."""
    return _gathering("places", [_place(name) for name in names], lambda values: values)


def _gathering(
    into: str, options: list[inspect.Parameter], read: Callable[[Asked], Any]
) -> Callable[[Command], Command]:
    """Let options stand where a command has one parameter, which is `read` from what was typed for them, by name."""

    def decorate(command: Command) -> Command:
        own, hints = inspect.signature(command).parameters, get_type_hints(command, include_extras=True)
        parameters = list[inspect.Parameter]()
        for name, param in own.items():
            parameters += options if name == into else [param.replace(annotation=hints[name], kind=param.KEYWORD_ONLY)]
        parameters.sort(key=lambda param: param.default is not param.empty)  # required ones first

        @functools.wraps(command)
        def typed(**values: Any) -> None:
            command(**{into: read({option.name: values.pop(option.name) for option in options})}, **values)

        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        typed.__annotations__ = {param.name: param.annotation for param in parameters}
        return typed

    return decorate


def _parameter(option: Field[Any], kind: Any, changed: Any = None) -> inspect.Parameter:
    """An option as typer reads it. Choices and lists are read as texts: the configuration checks them."""
    name, kind = option.name, plain(kind)
    metadata = {**option.metadata, **(changed.metadata if changed is not None else {})}
    default = option.default if changed is None or changed.default is MISSING else changed.default
    metavar = (
        f"<{kind.__name__} >={metadata['least']}>"
        if "least" in metadata
        else metadata.get("metavar") or "|".join(choices(kind))
    )
    if choices(kind) or get_origin(kind) is tuple:
        kind = str
    # With a flag of its own, one that is off has no --no- beside it.
    flag = metadata.get("flag") or (f"--{name.replace('_', '-')}" if kind is bool and default is not None else None)
    info = typer.Option(
        *filter(None, [flag]), help=metadata["help"], rich_help_panel=metadata.get("panel"),
        metavar=metavar if 0 < len(metavar) <= MOST_METAVAR else None, **metadata.get("typer", {}),
    )  # fmt: skip
    if name == "model":
        info = typer.Argument(help=metadata["help"])
    if metadata.get("checkpoint") or default is None:
        default, kind = None, kind | None
    initial = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=initial, annotation=Annotated[kind, info])


def _read(name: str, value: Any) -> Any:
    """A typed value as the configuration takes it."""
    if get_origin(plain(TYPES[name])) is tuple:
        value = numbers(f"--{name}", value)
    check(DECLARED[name], TYPES[name] | None, value)
    place = DECLARED[name].metadata.get("place")
    return value if place is None or value is None else absolute(value, new=place == "path")


MemoryPrefer = Annotated[str, typer.Option("--memory-prefer", help=DECLARED["memory_prefer"].metadata["help"])]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...", rich_help_panel=NETWORK)]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there, even if anisocert did not write it.")]
# Of commands that read a run, which may name files but no code.
PLACES = {
    "model": "The network, if not where the run says; a function must be typed here.",
    "denoise": "The run's denoiser, if not where the run says; a function must be typed here.",
    "codebook": "The run's codebook, if not where the run says.",
    "selector": "The run's selector, if not where the run says.",
    "data": "The run's data, if not where the run says.",
    "memory": "The run's memory, if not a file where the run says.",
}
Places = dict[str, str | None]


def _place(name: str) -> inspect.Parameter:
    info = typer.Option(help=PLACES[name], callback=memory_there if name == "memory" else None)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, info])


def checked() -> None:
    """Called by a command once its options are checked and nothing is loaded; ends it if only the check is wanted."""
    if ONLY_CHECK.get():
        raise typer.Exit


def memory_there(place: str | None) -> str | None:
    """The path or URL of a memory; an error if there is none."""
    from anisocert.memory import Memory, shown

    if place is not None and not Memory.exists(place):
        raise typer.BadParameter(f"expected a certificate memory, got {shown(place)}, which does not exist")
    return place


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
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ArgumentError(f"expected {option} as numbers separated by commas, got {text!r}") from error


def seconds(text: str | None) -> float | None:
    """A time budget, as in 90, 10m or 2h."""
    if text is None:
        return None
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    try:
        budget = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        budget = -1.0
    if not 0 <= budget < float("inf"):
        raise ArgumentError(f"expected --time-budget as in 90, 10m or 2h, got {text!r}")
    return budget
