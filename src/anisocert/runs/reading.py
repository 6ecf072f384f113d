"""A finished run, read back: what it says about itself, its rows, its thetas."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.durable import write_whole
from anisocert.errors import ArgumentError, MissingExtraError

try:
    import pyarrow.parquet as pq
    from safetensors.numpy import load_file
except ImportError as error:
    raise MissingExtraError("reading a run needs pyarrow and safetensors: pip install 'anisocert[cli]'") from error

TABLE = "certificates.parquet"
JOURNAL = "memory.jsonl"  # there while a memory is being asked about the rows


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run folder whose files are those that `run.json` vouches for. table: one row an input, in order of id."""

    folder: Path
    description: dict[str, Any] = field(repr=False)
    table: Any = field(repr=False)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def has_memory(self) -> bool:
        """Whether the rows hold a memory's answers, in the columns `memory_*`."""
        return "memory_prediction" in self.table.column_names

    def column(self, name: str) -> NDArray[Any]:
        """One value an input."""
        if name not in self.table.column_names:
            raise ArgumentError(f"expected a run with column {name!r}, got {self.folder} without it")
        return np.asarray(self.table[name].to_numpy(zero_copy_only=False))

    @cached_property
    def thetas(self) -> dict[int, NDArray[np.float32]]:
        """Theta of each example id: a scalar, or of the input's shape."""
        files = sorted((self.folder / "theta").glob("*.safetensors"))
        stored = {int(name): value for file in files for name, value in load_file(file).items()}
        return {number: value.reshape(()) if value.size == 1 else value for number, value in stored.items()}


def read_run(folder: Path) -> StoredRun:
    """A finished run; an error where the folder holds none, or a file that the run did not write."""
    description = read_description(folder)
    return StoredRun(folder, description, pq.read_table(folder / TABLE).sort_by("idx"))


def expect_finished(folder: Path) -> None:
    """An error where the folder is no run, or one that is still under way."""
    if not (folder / "run.json").is_file():
        why = ", one under way: its certify command goes on" if (folder / "unfinished").is_dir() else ""
        raise ArgumentError(f"expected a finished run, a folder with run.json, got {folder}{why}")


def read_description(folder: Path) -> dict[str, Any]:
    """`run.json`, once it is clear that the files are those it describes."""
    expect_finished(folder)
    try:
        text = (folder / "run.json").read_text()
        described: dict[str, Any] = json.loads(text)
        whole = text == rendered(described)
    except (ValueError, AttributeError):
        whole = False
    if not whole:
        raise ArgumentError(f"{folder / 'run.json'} is not what the run wrote: its checksum differs")
    for name, expected in described["files"].items():
        # An addition that was interrupted has left the table of before, or the next one.
        if checksum(folder / name) not in (expected, described.get("next", {}).get(name)):
            raise ArgumentError(f"{folder / name} is not the file that the run wrote: its checksum differs")
    return described


def write_description(folder: Path, described: dict[str, Any]) -> None:
    """Replace `run.json` in one step; it ends with a checksum over the rest of itself."""
    text = rendered(described)
    write_whole(folder / "run.json", lambda part: part.write_text(text))


def rendered(described: dict[str, Any]) -> str:
    """`run.json` byte for byte: the description, and the checksum of its content in the key `checksum`."""
    content = {name: value for name, value in described.items() if name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps(content | {"checksum": hashlib.sha256(canonical.encode()).hexdigest()}, indent=2) + "\n"


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
