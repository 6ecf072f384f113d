"""Figures as files: one size, one look, the same bytes for the same figure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anisocert.appearance import appearance
from anisocert.durable import claim, write_whole
from anisocert.errors import from_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = {"anisotropic, as published": "#2f9e62"}
STYLE = {
    "font.size": 8, "axes.titlesize": 8.5, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
    "legend.frameon": False, "lines.linewidth": 1.4, "pdf.fonttype": 42, "savefig.bbox": "tight", "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
}  # fmt: skip


def colour(method: str, label: str = "") -> str:
    """A method's colour, the same in all figures; the published algorithm, by its label, has its own."""
    return PUBLISHED.get(label or method) or appearance(method, label).light


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure((width, height), layout="constrained")


@contextmanager
def styled() -> Iterator[None]:
    """Figures made inside look alike."""
    with from_extra("report", "figures need matplotlib"):
        import matplotlib
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        yield


def save(figure: "Figure", path: Path, kinds: Sequence[str] = ("pdf", "png"), force: bool = False) -> list[Path]:
    """Write a figure as PDF and PNG; the same figure gives the same bytes. force: in place of files that are not ours.

    path: without the suffix.
    """
    files = [path.with_name(f"{path.name}.{kind}") for kind in kinds]
    for file, kind in zip(files, kinds, strict=True):
        made_by = {"Creator": "anisocert", "CreationDate": None} if kind == "pdf" else {"Software": "anisocert"}
        claim(file, force)
        write_whole(file, partial(figure.savefig, dpi=200, metadata=made_by, format=kind))
    return files
