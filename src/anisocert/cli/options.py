"""Options that several commands share, and how their texts are read."""

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES, NETWORK = "Which examples", "The network"
ONLY_CHECK = ContextVar("ONLY_CHECK", default=False)


def _of(panel: str, help: str, *names: str, least: int | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(*names, help=help, min=least, rich_help_panel=panel)
    return option


Model = Annotated[str, typer.Argument(help=".safetensors, .pt, .onnx, or package.module:function.")]
Data = Annotated[str, typer.Option(help="A name of `anisocert data list`, an .npz file or a folder of images.")]
Sigma = Annotated[float, typer.Option(help="Noise level: standard deviation, or with --norm l1 the half-width.")]
Norm = Annotated[str, typer.Option(help="l2: Gaussian noise; l1: uniform noise.")]
Seed = Annotated[int, typer.Option(help="Of all noise.")]
MemoryPrefer = Annotated[
    str, typer.Option("--memory-prefer", help="Where a region must make room: keep volume or ball.")
]
Split = Annotated[str, _of(EXAMPLES, "test or train.")]
Skip = Annotated[int, _of(EXAMPLES, "Every k-th of them.", least=1)]
Most = Annotated[int | None, _of(EXAMPLES, "How many.", "--max", least=1)]
Ids = Annotated[str | None, _of(EXAMPLES, "Only these: 3,17,100-199.")]
Precision = Annotated[str | None, _of(NETWORK, "float32 or bfloat16. Default: what is fast here.")]
Compile = Annotated[bool | None, _of(NETWORK, "Use torch.compile. Default: where it pays.")]
Rows = Annotated[int | None, _of(NETWORK, "Votes a network call. Default: as many as fit.")]
Outputs = Annotated[str, _of(NETWORK, "What it returns: logits or probabilities.")]
NumClasses = Annotated[int | None, _of(NETWORK, "Where the model does not tell.", least=2)]
Layout = Annotated[str | None, _of(NETWORK, "Whose checkpoint it is: cohen, salman or macer.")]
Mean = Annotated[str | None, _of(NETWORK, "Of its inputs, as in 0.49,0.48,0.45.")]
Std = Annotated[str | None, _of(NETWORK, "As in 0.2,0.2,0.2.")]
ModelId = Annotated[str | None, _of(NETWORK, "Its name in place of a hash, where parts of it cannot be read.")]
Denoise = Annotated[str | None, _of(NETWORK, "A denoiser to put in front of it: package.module:function.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there, also if anisocert did not write it.")]
# Of commands that read a run, which may name files but no code.
RunModel = Annotated[
    str | None,
    typer.Option("--model", help="The network, if it is not where the run says; a function must be typed here."),
]
RunDenoise = Annotated[
    str | None, typer.Option("--denoise", help="The run's denoiser, package.module:function, if it has one.")
]
RunData = Annotated[str | None, typer.Option("--data", help="The run's data, if they are not where it says.")]


def checked() -> None:
    """Called by a command once its options are checked and nothing is loaded; where that is all, it ends here."""
    if ONLY_CHECK.get():
        raise typer.Exit


def absolute(place: str | Path | None) -> str | None:
    """A file or folder by its whole path, so that a run can be resumed from elsewhere; a name as it is."""
    from anisocert.data import CATALOG

    if place is None or str(place) in CATALOG or not Path(place).exists():
        return None if place is None else str(place)
    return str(Path(place).resolve())


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Numbers with commas."""
    from anisocert.errors import ArgumentError

    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ArgumentError(f"expected {option} as numbers with commas, got {text!r}") from error


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
