"""Whether a run on disk is what it says: no byte of its files changed, every row recomputed from its votes."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anisocert.optimize import FOR_EVERYONE
from anisocert.runs import StoredRun, run_of
from anisocert.runs.files import ATTACKED, JOURNAL, TABLE, Finding, WrongFileError, look
from anisocert.shell import shell_quote
from anisocert.verify._recomputing import check_rows
from anisocert.verify.backing import backing

PUBLISHED = "rows: published without theta and the columns that follow from others; the run itself has them"
IMPORTED = "rows: imported without the votes that they could be recomputed from; their numbers rest on nothing here"


@dataclass(frozen=True, eq=False)
class Verification:
    """files: how many were checked. rows: how many were recomputed. undone: what could not be recomputed, and why.

    notes: what the reader should know besides. run: None if unreadable.
    """

    findings: tuple[Finding, ...]
    files: int = 0
    rows: int = 0
    undone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    run: StoredRun | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found; `undone` says what was not checked."""
        return not self.findings


def verify(folder: Path, memory: str | Path | None = None, data: str | None = None) -> Verification:
    """Check a run's files against `run.json`, every row against its votes and theta, a memory's answers against it.

    memory, data: where these are, if not where the run says. A changed byte is found by the checksums. A row that
    claims too much is found even if someone made the checksums fit. What this cannot find is a run that was made up
    whole, with votes that no network cast: draw some again (`anisocert.verify.recounting`). What could not be derived
    again is in `undone`.
    """
    contents = look(folder)
    findings, files = contents.findings, len(contents.description.get("files", ()))
    if contents.table is None:
        return Verification(findings, files, undone=("rows: the files are not the run's",))
    try:
        run = run_of(folder, contents).moved(memory=None if memory is None else str(memory), data=data)
        thetas = run.thetas
    except WrongFileError as error:
        return Verification((*findings, error.finding), files)
    if run.imported and not run.has_votes:
        if run.has_memory:
            findings += (
                Finding(TABLE, "has a memory's answers, but no votes that a memory could have been asked with"),
            )
        return Verification(findings, files, undone=(IMPORTED,), run=run)
    if "left_out" in contents.description:
        return Verification(findings, files, undone=(PUBLISHED,), run=run)
    try:
        row_findings, rows = check_rows(run, thetas)
    except WrongFileError as error:
        return Verification((*findings, error.finding), files)
    findings += tuple(row_findings)
    undone: tuple[str, ...] = ()
    sound = not findings  # what is compared with rows that are wrong themselves would only be reported twice
    if run.has_memory and sound:
        derived = backing(run)
        findings += derived.findings
        undone = (f"the memory's columns: {derived.undone}",) if derived.undone else ()
    if sound:
        findings += tuple(_attacked(run))
    return Verification(findings, files, rows, undone, tuple(_notes(folder, contents.description)), run)


def _attacked(run: StoredRun) -> Iterator[Finding]:
    """What is wrong with the attack that is kept beside the run, if there is one, or with the run, as it shows."""
    try:
        attack = run.attacked
    except WrongFileError as error:
        yield error.finding
        return
    if attack is not None and attack.failed and attack.expected is not None:
        yield Finding(
            ATTACKED,
            f"contradicts the run: {attack.otherwise_inside()} of {attack.has_region.sum()} regions were answered with "
            f"another class inside, where errors lead one to expect {attack.expected:.3g}",
        )


def _notes(folder: Path, described: dict[str, Any]) -> Iterator[str]:
    if described.get("method") not in FOR_EVERYONE:
        yield (
            "theta is each input's own; that it was chosen without the votes that certify it cannot be seen here: "
            f"anisocert verify {shell_quote(folder)} --recount K --fresh N draws others"
        )
    if os.path.lexists(folder / ATTACKED):  # a measurement beside the run, which run.json does not vouch for
        yield f"{ATTACKED}: the attack was not repeated; anisocert attack {shell_quote(folder)} --first does"
    if described.get("next") or (folder / JOURNAL).is_file():
        yield "adding this run to a memory was interrupted: the same `anisocert memory add` completes it"
