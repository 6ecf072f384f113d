"""A run on disk, `run.json`, `certificates.parquet`, `theta/*.safetensors`: written, changed and copied."""

import hashlib
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.durable import claim, write_whole
from anisocert.errors import ArgumentError, from_extra
from anisocert.runs.files import (
    ATTACKED,
    DESCRIPTION,
    JOURNAL,
    TABLE,
    checksum,
    expect_own_folders,
    read_bytes,
    theta_names,
    write_description,
)  # fmt: skip
from anisocert.runs.stored import read_run
from anisocert.runs.thetas import packed
from anisocert.runs.versions import versions

with from_extra("cli", "saving a run needs pyarrow and safetensors"):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from safetensors.numpy import save

THETA_FILE_BYTES = 200_000_000


def claim_files(folder: Path, force: bool = False) -> None:
    """An error if a new run would replace or remove files that are not a run's."""
    for path in (folder / TABLE, *folder.glob("theta/*.safetensors")):
        claim(path, force)


def clear(folder: Path) -> None:
    """Make room for a run's files; `run.json` goes first, as it would vouch for a half-written run."""
    expect_own_folders(folder)
    (folder / "theta").mkdir(parents=True, exist_ok=True)
    (folder / DESCRIPTION).unlink(missing_ok=True)
    for name in (JOURNAL, ATTACKED):  # of a memory's answers to the run that was here, and of an attack on it
        (folder / name).unlink(missing_ok=True)
    for old in (folder / "theta").glob("*.safetensors"):
        old.unlink()


def write_thetas(folder: Path, thetas: Iterable[tuple[int, NDArray[np.float32]]]) -> None:
    """Thetas by example id, in as many files as it takes to keep each of bounded size."""
    files, size, held = 0, 0, dict[str, NDArray[np.float32]]()

    def flush() -> None:
        nonlocal files, size, held
        files += 1
        content = save(held)
        path = folder / "theta" / f"theta-{files:04d}.safetensors"
        write_whole(path, lambda part: part.write_bytes(content))
        size, held = 0, {}

    for number, theta in thetas:
        stored = packed(theta)
        if held and size + stored.nbytes > THETA_FILE_BYTES:
            flush()
        held[str(number)] = stored
        size += stored.nbytes
    flush()
    if files == 1:
        (folder / "theta" / "theta-0001.safetensors").replace(folder / "theta" / "theta.safetensors")


def write_table(folder: Path, table: Any) -> None:
    """One row per input."""
    write_whole(folder / TABLE, lambda part: pq.write_table(table, part))


def replace_table(folder: Path, described: dict[str, Any], table: Any) -> None:
    """Put a new table in place so that a crash at any moment leaves a run whose checksums hold."""
    written = pa.BufferOutputStream()
    pq.write_table(table, written)
    content = written.getvalue().to_pybytes()
    digest = hashlib.sha256(content).hexdigest()
    # The table in place may be the next one of an earlier, interrupted addition.
    files = described["files"] | {TABLE: checksum(folder / TABLE)}
    write_description(folder, described | {"files": files, "next": {TABLE: digest}})
    write_whole(folder / TABLE, lambda part: part.write_bytes(content))
    files[TABLE] = digest
    write_description(folder, {name: value for name, value in described.items() if name != "next"} | {"files": files})


def describe(folder: Path, config: dict[str, Any]) -> None:
    """Write `run.json`, which holds the checksums of the rest: it comes last and makes the run complete."""
    files = {name: checksum(folder / name) for name in (TABLE, *theta_names(folder))}
    write_description(folder, config | {"versions": versions(), "files": files})


def copy_run(folder: Path, copy: Path, force: bool = False) -> None:
    """The same run in another folder, for another memory; may be interrupted and repeated.

    `run.json` comes last; files are linked where possible, as they are replaced and never written into. A journal of
    the run's own memory stays behind. Nothing but a run's files, by their names, is read, replaced or made.
    force: even in place of files that are not the run's.
    """
    wanted = read_run(folder).description["files"]
    if os.path.lexists(copy / DESCRIPTION):
        found = read_run(copy).description["files"]
        if found | {TABLE: None} != wanted | {TABLE: None}:
            raise ArgumentError(f"expected no run or a copy of {folder}, got another run in {copy}")
        return
    expect_own_folders(copy)
    for name, digest in wanted.items():
        target = copy / name
        if not (target.is_file() and checksum(target) == digest):  # left by an interrupted copy
            claim(target, force)
    for name in (*wanted, DESCRIPTION):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(folder / name, target, follow_symlinks=False)
        except (OSError, NotImplementedError):
            write_whole(target, partial(Path.write_bytes, data=read_bytes(folder, name)))
