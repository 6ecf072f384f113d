"""A run's files: which there are, and opening them so that nothing else can take their place.

A run may come from strangers. Its files are regular ones inside its folder, under the names that runs use; no link is
followed, no pipe or device opened, and nothing is read that is larger than a run's file can be.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

from anisocert.durable import refuse_link, write_whole
from anisocert.errors import ArgumentError
from anisocert.inputs import UNUSUAL, FileError, opened_regular
from anisocert.inputs import checksum as checksum

DESCRIPTION, TABLE = "run.json", "certificates.parquet"
JOURNAL = "memory.jsonl"  # there while a memory is being asked about the rows
ATTACKED = "attacked-first.json"  # what an attack measured, beside the run
THETA = re.compile(r"theta/theta(-[0-9]{4,9})?\.safetensors")
MOST_BYTES = 2_000_000_000
MOST_DESCRIPTION_BYTES = 8_000_000  # JSON takes many times as much once parsed
MOST_ATTACKED_BYTES = 4 * MOST_DESCRIPTION_BYTES


@dataclass(frozen=True)
class Finding:
    """Something that is wrong. where: `run.json`, another file of the run, or an example by its id."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class WrongFileError(ArgumentError):
    """A file of a run is missing, or is not what a run's file can be."""

    def __init__(self, folder: Path, name: str, what: str) -> None:
        super().__init__(f"{folder / name} {what}")
        self.finding = Finding(name, what)


@dataclass(frozen=True, eq=False)
class Contents:
    """What a folder holds: the description, what is wrong, and the table's bytes if the files are the described ones.

    description: empty if `run.json` is unusable.
    """

    description: dict[str, Any] = field(repr=False)
    findings: tuple[Finding, ...]
    table: bytes | None = field(default=None, repr=False)


def look(folder: Path) -> Contents:
    """Compare `run.json` with its own checksum, and every file with the one it has for it."""
    expect_finished(folder)
    described, findings = _description(folder)
    file_findings, table = list[Finding](), None
    files, coming = described.get("files", {}), described.get("next") or {}
    if described and TABLE not in files:
        file_findings.append(Finding(DESCRIPTION, f"has no checksum of {TABLE}"))
    for name, expected in files.items():
        if name != TABLE and not THETA.fullmatch(name):
            where = "is outside the run" if name.startswith("/") or ".." in Path(name).parts else "no run has"
            file_findings.append(Finding(DESCRIPTION, f"names {name!r} among its files, which {where}"))
            continue
        try:
            with opened(folder, name) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                if name == TABLE:
                    file.seek(0)
                    table = file.read()
        except WrongFileError as error:
            file_findings.append(error.finding)
            continue
        # An interrupted addition to a memory has left the previous table, or the next one.
        if digest not in (expected, coming.get(name) if isinstance(coming, dict) else None):
            file_findings.append(
                Finding(name, f"is not the file that the run wrote: SHA-256 {digest}, expected the checksum {expected}")
            )
    for name in theta_names(folder) if described else ():
        if name not in files:
            file_findings.append(Finding(name, "is not among the run's files"))
    return Contents(described, (*findings, *file_findings), None if file_findings else table)


def expect_finished(folder: Path) -> None:
    """An error if the folder is not a run, or one that is still under way."""
    if not os.path.lexists(folder / DESCRIPTION):
        why = ", one under way: its certify command resumes it" if (folder / "unfinished").is_dir() else ""
        raise ArgumentError(f"expected a finished run, a folder with run.json, got {folder}{why}")


def sound(folder: Path) -> Contents:
    """What `look` finds; an error if anything is wrong."""
    contents = look(folder)
    if contents.findings:
        more = len(contents.findings) - 1
        rest = f" (and {more} more: anisocert verify lists them)" if more else ""
        raise ArgumentError(f"{folder} is not what the run wrote: {contents.findings[0]}{rest}")
    return contents


def read_description(folder: Path) -> dict[str, Any]:
    """`run.json`, after a check that the files are those it describes."""
    return sound(folder).description


def theta_names(folder: Path) -> list[str]:
    """What would be taken for a run's thetas."""
    return [f"theta/{path.name}" for path in sorted((folder / "theta").glob("*.safetensors"))]


def read_bytes(folder: Path, name: str) -> bytes:
    """A whole file of a run."""
    with opened(folder, name) as file:
        return file.read()


@contextmanager
def opened(folder: Path, name: str) -> Iterator[BufferedReader]:
    """One of a run's files, by its name in the folder, which must be one that runs use."""
    if name not in (DESCRIPTION, TABLE, ATTACKED) and not THETA.fullmatch(name):
        raise WrongFileError(folder, name, "is not one of a run's files")
    most = {DESCRIPTION: MOST_DESCRIPTION_BYTES, ATTACKED: MOST_ATTACKED_BYTES}.get(name, MOST_BYTES)
    try:
        with opened_regular(folder / name, most, below=folder) as file:
            yield file
    except FileError as error:
        raise WrongFileError(folder, name, error.what) from error


def expect_own(path: Path) -> None:
    """An error if something other than a file of ours is in its place: a link, a pipe, something huge."""
    if os.path.lexists(path) and not (stat.S_ISREG((status := path.lstat()).st_mode) and status.st_size <= MOST_BYTES):
        raise WrongFileError(path.parent, path.name, UNUSUAL)


def expect_own_folders(folder: Path) -> None:
    """An error if one of the folders in a run's folder is a link."""
    for name in ("theta", "unfinished"):
        refuse_link(folder / name)


def _description(folder: Path) -> tuple[dict[str, Any], list[Finding]]:
    """`run.json`, empty if it is unusable, and what is wrong with it.

    What it says must give the checksum it carries, and the bytes it was written as.
    """
    try:
        text = read_bytes(folder, DESCRIPTION)
        described = json.loads(text)
        json.dumps(described, ensure_ascii=False).encode()  # half a character cannot be shown
        whole = isinstance(described, dict) and text == rendered(described).encode()
    except WrongFileError as error:
        return {}, [error.finding]
    except (ValueError, RecursionError) as error:
        return {}, [Finding(DESCRIPTION, f"is not JSON that a run writes: {type(error).__name__}: {error}")]
    files = described.get("files") if isinstance(described, dict) else None
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        return {}, [Finding(DESCRIPTION, "does not say which files are the run's")]
    if not isinstance(described.get("versions"), dict | None):
        return {}, [Finding(DESCRIPTION, "does not list versions by name, as a run does")]
    if not whole:
        return described, [Finding(DESCRIPTION, "is not as it was written: its own checksum or its layout differs")]
    return described, []


def write_description(folder: Path, described: dict[str, Any]) -> None:
    """Replace `run.json` in one step; it ends with a checksum over the rest of itself."""
    text = rendered(described)
    write_whole(folder / DESCRIPTION, lambda part: part.write_text(text))


def rendered(described: dict[str, Any]) -> str:
    """`run.json` byte for byte: the description, and the checksum of its content in the key `checksum`."""
    content = {name: value for name, value in described.items() if name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps(content | {"checksum": hashlib.sha256(canonical.encode()).hexdigest()}, indent=2) + "\n"
