"""What verifying a run gives: what was looked at, and what is wrong."""

from dataclasses import dataclass, field

from anisocert.runs.files import Finding
from anisocert.runs.stored import StoredRun


@dataclass(frozen=True, eq=False)
class Verification:
    """files, rows: how many were checked. undone: what could not be recomputed, and why. run: if it could be read.

    notes: what the reader should know besides.
    """

    findings: tuple[Finding, ...]
    files: int = 0
    rows: int = 0
    undone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    run: StoredRun | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found; `undone` says what nobody looked at."""
        return not self.findings
