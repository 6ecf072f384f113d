"""A report from Python: `ac.report`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anisocert.certificate import Certificate
from anisocert.durable import claim
from anisocert.errors import ArgumentError
from anisocert.evaluate import Evaluation
from anisocert.inputs import told
from anisocert.report.canvas import styled
from anisocert.report.figures import accuracy
from anisocert.report.page import write_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anisocert.runs import StoredRun

Source = Evaluation | str | Path
"""What a report can be about: what `ac.evaluate` returned, or the folder of a run."""


def report(
    what: Source | Sequence[Source], out: str | Path = "report.html", *, gallery: int = 24, force: bool = False
) -> Path:
    """Write a report: one HTML file with a verdict in plain words, curves, tables and single inputs.

    Needs `pip install 'anisocert[cli,report]'`.

    Args:
        what: what `ac.evaluate` returned, or the folder of a run; several in a list are compared.
        out: the file to write.
        gallery: how many inputs are shown one by one.
        force: also in place of a file that anisocert did not write.

    Returns:
        The path of the file.
    """
    if isinstance(out, Evaluation) or (isinstance(what, str | Path) and Path(what).suffix == ".html"):
        raise ArgumentError(
            f"expected what to report on first, then the file, got {told(what)} first: ac.report(e, out)"
        )
    if not isinstance(out, str | Path):
        raise ArgumentError(f"expected out as the path of an .html file, got {told(out)}")
    if isinstance(gallery, bool) or not isinstance(gallery, int) or gallery < 0:
        raise ArgumentError(f"expected gallery, a number of inputs >= 0, got {told(gallery)}")
    target = page_file(out)
    runs = list(_runs(what))
    claim(target, force)
    write_report(runs, target, gallery)
    return target


def page_file(out: str | Path) -> Path:
    """The file of a page; an error for a folder, be it one only by the end of its name, and for other kinds of file."""
    if str(out).endswith(("/", os.sep)) or Path(out).is_dir():
        raise ArgumentError(f"expected the name of a file, got the folder {out}: {Path(out) / 'report.html'}, say")
    if Path(out).suffix.lower() not in ("", ".html", ".htm"):
        raise ArgumentError(f"expected the name of an .html file, as the page is HTML, got {out}: {out}.html, say")
    return Path(out)


def draw_curves(evaluation: Evaluation) -> list[Figure]:
    """Certified accuracy against radius and proxy radius: a figure per norm, each curve with whom it protects.

    Needs `pip install 'anisocert[report]'`.
    """
    with styled():
        return [accuracy(comparison, together=False) for comparison in evaluation.comparisons]


def _runs(what: Any) -> Iterator[StoredRun]:
    if isinstance(what, Evaluation):
        yield from (entry.run for comparison in what.comparisons for entry in comparison.entries)
    elif isinstance(what, str | Path):
        from anisocert.runs import read_run

        yield read_run(Path(what))
    elif isinstance(what, list | tuple):
        if not what:
            raise ArgumentError("expected something to report on, got an empty list")
        for source in what:
            yield from _runs(source)
    else:
        hint = ": ac.report(ac.evaluate(certificates, labels), out)" if isinstance(what, Certificate) else ""
        raise ArgumentError(
            f"expected what ac.evaluate(certificates, labels) returned, or a run's folder, got {told(what)}{hint}"
        )
