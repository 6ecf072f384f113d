"""What must be known about a run before its numbers are believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anisocert.runs import StoredRun


def notes(run: StoredRun) -> Iterator[str]:
    """Sentences, in the verdict for the run it speaks of and beside every run's command; none for most runs."""
    if not run.on_disk:
        yield (
            "These certificates were evaluated in Python and are not kept as a run, so nothing here can be recomputed "
            "from files."
        )
    if run.imported:
        yield (
            "This run was imported from a log. It holds no votes, so nothing in it can be recomputed, and its "
            "radii may have been rounded up."
        )
