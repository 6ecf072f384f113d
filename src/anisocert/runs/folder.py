"""A run on disk: `run.json`, `certificates.parquet`, `theta/*.safetensors`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.durable import write_whole
from anisocert.errors import MissingExtraError
from anisocert.runs.files import ATTACKED, JOURNAL, TABLE, checksum, expect_own_folders, theta_names, write_description
from anisocert.runs.thetas import packed
from anisocert.runs.versions import versions

try:
    import pyarrow.parquet as pq
    from safetensors.numpy import save
except ImportError as error:
    raise MissingExtraError("saving a run needs pyarrow and safetensors: pip install 'anisocert[cli]'") from error

THETA_FILE_BYTES = 200_000_000


def clear(folder: Path) -> None:
    """Make room for a run's files; `run.json` goes first, as it would vouch for a half-written run."""
    expect_own_folders(folder)
    (folder / "theta").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)
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


def describe(folder: Path, config: dict[str, Any]) -> None:
    """Write `run.json`, which holds the checksums of the rest: it comes last and makes the run complete."""
    files = {name: checksum(folder / name) for name in (TABLE, *theta_names(folder))}
    write_description(folder, config | {"versions": versions(), "files": files})
