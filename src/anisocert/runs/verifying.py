"""Whether a run on disk is what it says: no byte of its files changed, every row recomputed from its votes."""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from anisocert.runs.reading import JOURNAL, TABLE, checksum, expect_finished, read_run, rendered
from anisocert.runs.recomputing import check_rows
from anisocert.runs.verification import Finding, Verification


def verify(folder: Path) -> Verification:
    """Check a run's files against `run.json`, and every row against its votes and theta.

    A changed byte is found by the checksums. A row that claims too much is found also where somebody made the checksums
    fit. What this cannot find is a run that was made up whole, with votes that no network cast: draw some again
    (`anisocert.runs.recounting`).
    """
    expect_finished(folder)
    described, findings = _description(folder)
    if described is None:
        return Verification(tuple(findings))
    broken = list(_check_files(folder, described))
    findings += broken
    count = len(described["files"])
    if broken:
        return Verification(
            tuple(findings), count, notes=("the rows were not recomputed: the files are not the run's",)
        )
    try:
        run = read_run(folder)
        thetas = run.thetas
    except Exception as error:  # whatever a reader says about bytes that somebody made the checksums fit to
        return Verification((*findings, Finding(TABLE, f"cannot be read: {_line(error)}")), count)
    if "imported" in described:
        note = "imported: its files are checked, its rows came without the votes they could be recomputed from"
        return Verification(tuple(findings), count, notes=(note,), run=run)
    findings += check_rows(run, thetas)
    return Verification(tuple(findings), count, rows=len(run), notes=tuple(_notes(folder, described)), run=run)


def _description(folder: Path) -> tuple[dict[str, Any] | None, list[Finding]]:
    """`run.json`, None where it is of no use, and what is wrong with it.

    What it says must give the checksum it carries, and the bytes it was written as.
    """
    text = (folder / "run.json").read_bytes()
    try:
        described = json.loads(text)
    except ValueError as error:
        return None, [Finding("run.json", f"is not JSON: {_line(error)}")]
    if not isinstance(described, dict) or not isinstance(described.get("files"), dict):
        return None, [Finding("run.json", "does not say which files are the run's")]
    if text != rendered(described).encode():
        return described, [Finding("run.json", "is not as it was written: its own checksum or its layout differs")]
    return described, []


def _check_files(folder: Path, described: dict[str, Any]) -> Iterator[Finding]:
    files, coming = described["files"], described.get("next") or {}
    if TABLE not in files:
        yield Finding("run.json", f"has no checksum of {TABLE}")
    for name, expected in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            yield Finding("run.json", f"names {name}, which is outside the run")
        elif not (folder / path).is_file():
            yield Finding(name, "is missing")
        # An addition to a memory that was interrupted has left the table of before, or the next one.
        elif (found := checksum(folder / path)) not in (expected, coming.get(name)):
            yield Finding(name, f"is not the file that the run wrote: SHA-256 {found}, expected {expected}")
    for path_ in sorted((folder / "theta").glob("*.safetensors")):
        name = f"theta/{path_.name}"
        if name not in files:
            yield Finding(name, "is not among the run's files, and would be read as its theta")


def _notes(folder: Path, described: dict[str, Any]) -> Iterator[str]:
    if described.get("next") or (folder / JOURNAL).is_file():
        yield "adding this run to a memory was interrupted: the same `anisocert memory add` completes it"


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
