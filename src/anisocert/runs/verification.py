"""What verifying a run gives: what was looked at, and what is wrong."""

from dataclasses import dataclass, field

from anisocert.runs.reading import StoredRun

TOLERANCE = 1e-9
"""Relative; what recomputed numbers may differ by."""
PORTABLE = 1e-13
"""Relative; what a claim may exceed the recomputed one by, because two machines' libraries differ in the last digits.
Gaps are rounded down by ten times as much, so that it stays a true claim. Radii follow from gap and theta by products
alone, which are the same everywhere: they get nothing."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong. where: `run.json`, another file of the run, or an example by its id."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, eq=False)
class Verification:
    """files, rows: how many were checked. notes: what the reader should know besides. run: if it could be read."""

    findings: tuple[Finding, ...]
    files: int = 0
    rows: int = 0
    notes: tuple[str, ...] = ()
    run: StoredRun | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
