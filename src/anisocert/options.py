"""The options of a run, each declared once: its name, type, default, range and what `--help` says about it.

The commands' parameters, the keys of a TOML or JSON file and the checks all come from these fields, so that one
sentence answers a wrong value wherever it was written. Needs nothing but the standard library: help must be quick.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from anisocert.appearance import APPEARANCES
from anisocert.errors import ArgumentError, expect_one_of

EXAMPLES, VOTES, NETWORK = "Which examples", "Votes and bounds", "The network"
READING = ("layout", "mean", "std")  # how a network's file is read
PARTS = ("codebook", "selector", "denoise")  # what else a network is made of: what chooses its noise, what removes it
WORDS = {bool: "true or false", int: "a whole number", float: "a number", dict: "a table", list: "a list"}


def option(
    default: Any = MISSING,
    help: str | None = None,
    panel: str | None = None,
    *,
    least: int | None = None,
    metavar: str | None = None,
    place: Literal["name", "path"] | None = None,
    checkpoint: bool = False,
    flag: str | None = None,
    **typer: Any,
) -> Any:
    """A field that can be typed. panel: its group in the help. least: the smallest value.

    place: a path, made absolute where it is typed, or a name that stays as it is. checkpoint: may be left out where the
    network's file says it. flag: how it is typed, if not by the field's name. typer: what else typer is to check.
    """
    metadata = {
        "help": help, "panel": panel, "least": least, "metavar": metavar, "place": place, "checkpoint": checkpoint,
        "flag": flag, "typer": typer or None,
    }  # fmt: skip
    return field(default=default, metadata={name: value for name, value in metadata.items() if value is not None})


@dataclass(frozen=True)
class Options:
    """What a run can be asked for.

    model, data, denoise, codebook, selector, average_of, memory: absolute paths, or names.
    """

    model: str = option(help=".safetensors, .pt, .onnx, or package.module:function.", place="name")
    data: str = option(help="A name of `anisocert data list`, an .npz file or a folder of images.", place="name")
    sigma: float = option(
        help="Noise level: standard deviation, or with l1 the half-width. Default: the network's own.", checkpoint=True
    )
    norm: Literal["l2", "l1"] = option("l2", "l2: Gaussian noise; l1: uniform noise.")
    noise: str | None = option(None, "Noise by name, such as gaussian-mixture. Default: the usual one for --norm.")
    components: str | None = option(
        None, "For a mixture, with --method fixed: weights and multiples of --sigma, as in 0.3:0.8,0.7:1.6."
    )
    method: str = option("anisotropic", " or ".join(", ".join(APPEARANCES).rsplit(", ", 1)) + ".")
    paper: bool = option(False, "The published search for theta instead of ours.")
    iterations: int | None = option(None, "With --paper: its isotropic steps. Default: 900.", least=1)
    limit: float | None = option(None, "Theta is at most this times --sigma. Default: 32 for images, else 6.", least=1)
    prefer: Literal["volume", "ball"] = option("ball", "Shapes of largest volume, or only those that keep the ball.")
    domain: tuple[float, ...] | None = option(
        None,
        "Range of valid inputs: no axis is searched beyond its farther wall, and regions are compared, and sizes also "
        "reported, by the part inside.",
        metavar="LOW,HIGH",
    )
    codebook: str | None = option(
        None,
        "With method cascade, selected or two-step: the noises to choose from, a file of `codebook`.",
        place="name",
    )
    selector: str | None = option(
        None, "With --method selected or two-step: the network that chooses; `train --recipe selector`.", place="name"
    )
    average_of: str | None = option(
        None, "With --method average: a finished run whose mean theta all inputs get.", metavar="RUN", place="name"
    )
    memory: str | None = option(None, "A certificate memory that all answers go through.", metavar="FILE", place="path")
    memory_policy: str | None = option(None, "For a new memory: inherit, abstain or worst-case.")
    memory_prefer: Literal["volume", "ball"] = option("volume", "What a region that must shrink keeps: volume or ball.")

    split: Literal["train", "test"] = option("test", "Which part of the data.", EXAMPLES)
    skip: int = option(1, "Every k-th example.", EXAMPLES, least=1)
    max: int | None = option(
        None, "At most this many examples, the first of them; --skip spreads them.", EXAMPLES, least=1
    )
    ids: str | None = option(None, "Only these ids, 3,17,100-199, or files of a folder, cat/1.png.", EXAMPLES)

    n0: int = option(100, "Votes per input to select its class.", VOTES)
    n: int = option(100_000, "Votes per input for its certificate.", VOTES)
    alpha: float = option(0.001, "Probability with which a certificate may be wrong.", VOTES)
    simultaneous: bool = option(False, "Alpha covers all examples at once.", VOTES)
    lifetime: bool = option(False, "Alpha covers all that --memory will ever see; for a new memory.", VOTES)
    bound: str = option("one-vs-rest", "one-vs-rest (what the field reports) or two-class.", VOTES)
    stop: Literal["checkpoints", "betting"] | None = option(None, "Stop early: by checkpoints or betting.", VOTES)
    target_radius: float | None = option(None, "Stop once it is decided whether the radius reaches this.", VOTES)
    seed: int = option(0, "Seed of all noise.")

    outputs: Literal["logits", "probabilities"] = option("logits", "What it returns: logits or probabilities.", NETWORK)
    num_classes: int | None = option(None, "Default: what the network's file says, else the data.", NETWORK, least=2)
    layout: Literal["cohen", "salman", "macer", "flat", "channels-last", "channels-first"] | None = option(
        None,
        "Whose checkpoint: cohen, salman, macer; or how it takes images: flat, channels-last. channels-first: the "
        "images of --data are so.",
        NETWORK,
    )
    mean: tuple[float, ...] | None = option(None, "Mean of its inputs, as in 0.49,0.48,0.45.", NETWORK)
    std: tuple[float, ...] | None = option(None, "Standard deviation, as in 0.2,0.2,0.2.", NETWORK)
    denoise: str | None = option(
        None,
        "A denoiser to put in front of it: a file of `train --recipe denoiser`, or package.module:function.",
        NETWORK,
        place="name",
    )
    model_id: str | None = option(
        None, "Its name instead of a hash, if parts of it cannot be read; precision and grid are added.", NETWORK
    )

    def __post_init__(self) -> None:
        kinds = get_type_hints(type(self))
        for declared in fields(self):
            check(declared, kinds[declared.name], getattr(self, declared.name))


@dataclass(frozen=True)
class Computing:
    """How the network is to compute: what can be typed of `engine.Numerics`, which checks it."""

    precision: str | None = option(None, "float32 or bfloat16. Default: what is fast here.", NETWORK)
    compile: bool | None = option(None, "Use torch.compile. Default: where it pays.", NETWORK)
    rows: int | None = option(None, "Votes per network call, a multiple of 32. Default: as many as fit.", NETWORK)
    grid: float | None = option(
        None, "Round noisy inputs to multiples of this; 0: plain float32 noise. Default: 2^-12.", NETWORK
    )


def check(declared: Field[Any], kind: Any, value: Any) -> None:
    """An error unless a value is one that an option may have."""
    name, least = declared.name, declared.metadata.get("least")
    if not fits(value, kind):
        raise ArgumentError(f"expected {name} as {words(kind)}, got {value!r}")
    if value is not None and choices(kind):
        expect_one_of(name, value, choices(kind))
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentError(f"expected {name} finite, got {value}")
    if value is not None and least is not None and value < least:
        raise ArgumentError(f"expected {name} >= {least}, got {value}")


def plain(kind: Any) -> Any:
    """A type without None."""
    (*inner,) = (member for member in get_args(kind) if member is not NoneType)
    return inner[0] if get_origin(kind) in (Union, UnionType) and len(inner) == 1 else kind


def choices(kind: Any) -> tuple[str, ...]:
    """The texts that an option may be; empty if it may be any."""
    return get_args(plain(kind)) if get_origin(plain(kind)) is Literal else ()


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, as a reader of the file would see it: "7" is not a number, and 1 is not true."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, member) for member in inner)
    if origin in (list, tuple):
        return isinstance(value, origin) and (not inner or all(fits(element, inner[0]) for element in value))
    if kind in (bool, int) or isinstance(value, bool):
        return type(value) is kind
    if kind is float:
        return isinstance(value, int | float)
    if kind in (str, Path) or origin is Literal:
        return isinstance(value, str) and "\0" not in value
    return isinstance(value, origin or kind)


def words(kind: Any) -> str:
    """A type in words."""
    inner = [member for member in get_args(kind) if member is not NoneType]
    if get_origin(kind) in (list, tuple):
        return f"a list, each {words(inner[0])}"
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(words, inner))
    return WORDS.get(kind, "a text")


def flags(options: Mapping[str, Any]) -> Iterator[str]:
    """Options as they are typed: true is a bare flag, a list repeats its option, a tuple is one text."""
    for name, value in options.items():
        flag = name.replace("_", "-")
        for argument in value if isinstance(value, list) else [value]:
            if isinstance(argument, bool):
                yield f"--{flag}" if argument else f"--no-{flag}"
            else:
                yield from (f"--{flag}", ",".join(map(str, argument)) if isinstance(argument, tuple) else str(argument))
