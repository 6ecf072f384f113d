"""What must be known about a run before its numbers are believed."""

from collections.abc import Iterator

from anisocert.runs import StoredRun


def notes(run: StoredRun) -> Iterator[str]:
    """Sentences, in the verdict for the run it speaks of and beside every run's command; none for most runs."""
    if run.imported:
        yield (
            "This run was imported from a log. It holds no votes, so nothing in it can be recomputed, and its "
            "radii may have been rounded up."
        )
