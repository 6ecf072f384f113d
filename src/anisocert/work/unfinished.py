"""A run under way, in `RUN/unfinished`: its configuration, and the inputs done so far, in parts.

A part is one file with the rows and thetas of some inputs; it is complete or absent. Parts may come from any
number of processes in any order; an input that lies in two parts, because two processes did it, has the same row in
both. Its name ends with a seal of this user's, by which parts that came with the folder can be told.
"""

import io
import json
import math
import shutil
import stat
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from anisocert import seals
from anisocert.durable import TEMPORARY, locked, write_whole
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.runs import Configuration
from anisocert.runs.files import JOURNAL, MOST_BYTES
from anisocert.runs.rows import SCHEMA, expect_sound, table_of
from anisocert.shell import shell_quote

MOST_ROWS = 100_000  # of a part: many times as many as a worker is given at once
NOT_A_PART = (pa.ArrowException, OSError, ValueError, TypeError)  # how a file shows that it is another
SEAL = 32  # hexadecimal digits in a part's name
PART_SCHEMA = SCHEMA.append(pa.field("theta", pa.list_(pa.float32())))


class Unfinished:
    """What is on disk of a run that is not merged yet. folder: RUN."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "unfinished"
        self.configuration_file = self.path / "configuration.json"
        self.memory_journal = self.path / JOURNAL

    def configuration(self) -> Configuration | None:
        """What the run began with; None if it has not begun."""
        if not self.configuration_file.is_file():
            return None
        try:
            return Configuration.from_dict(json.loads(self.configuration_file.read_text()))
        except (ValueError, RecursionError) as error:
            raise ArgumentError(
                f"expected {self.configuration_file} as the run wrote it, got something else: remove {self.path} to "
                f"begin the run anew ({error})"
            ) from error

    def begin(self, configuration: Configuration) -> None:
        """Fix the configuration that every part will belong to."""
        self.path.mkdir(parents=True, exist_ok=True)
        text = json.dumps(configuration.to_dict(), indent=2) + "\n"
        write_whole(self.configuration_file, lambda part: part.write_text(text))

    def settling(self) -> AbstractContextManager[int]:
        """One process at a time, while it is decided what the run is and whether it is finished."""
        return locked(self.path / "settling.lock")

    def working(self, shard: tuple[int, int]) -> AbstractContextManager[int]:
        """One process per shard: a second one would do the same work again."""
        first, count = shard
        which = "" if count == 1 else f"shard {first}/{count} of "
        busy = f"expected {which}{self.folder} to be idle, got a process at work on it"
        busy += ": wait for its end, or choose another --out"
        return locked(self.path / f"shard-{first}-of-{count}.lock", wait=False, busy=busy)

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Keep finished inputs: rows with their `theta`, an array."""
        flat = [row | {"theta": np.ravel(row["theta"])} for row in rows]
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(flat, PART_SCHEMA), buffer)
        content = buffer.getvalue()
        try:
            seal = self._seal(content)
        except ArgumentError:  # this user cannot keep a secret
            seal = uuid.uuid4().hex
        name = f"part-{rows[0]['idx']:09d}-{seal}.parquet"
        write_whole(self.path / name, lambda part: part.write_bytes(content))

    def _seal(self, content: bytes) -> str:
        """The seal of a part of this run; an error if this user cannot keep a secret."""
        return seals.seal(seals.secret(), self.configuration_file.read_bytes() + content).hex()[:SEAL]

    def parts(self) -> list[Path]:
        """Files of finished inputs."""
        return sorted(self.path.absolute().glob("part-*.parquet"))  # pyarrow takes a:b/c for an address

    def where(self) -> dict[int, Path]:
        """A part that holds each input done so far."""
        return {number: part for part in self.parts() for number in _ids(part)}

    def warn_of_others(self) -> None:
        """Warn of parts that this user did not write on this machine: they are taken as they are."""
        parts = self.parts()
        try:
            try:
                unverified = [part for part in parts if part.stem.rpartition("-")[2] != self._seal(part.read_bytes())]
                origin = "were done by another user or on another machine"
            except ArgumentError as error:
                unverified, origin = parts, f"were done by somebody ({error})"
            count = sum(len(_ids(part)) for part in unverified)
        except FileNotFoundError:
            return  # another shard has finished the run
        if count:
            warnings.warn(
                f"{count:,} inputs in {self.path} {origin}, and are taken as they are: unless you know by whom, remove "
                "that folder, or draw votes again once the run is done: "
                f"anisocert verify {shell_quote(str(self.folder))} --recount 20",
                AnisocertWarning,
                stacklevel=3,
            )

    def foreign(self) -> list[Path]:
        """What someone else has put where a run that has not begun has only locks."""
        patterns = ("*.lock", TEMPORARY.format("*"))
        paths = sorted(self.path.iterdir()) if self.path.is_dir() else []
        return [path for path in paths if not any(path.match(pattern) for pattern in patterns)]

    def remove(self) -> None:
        """Once the run is merged."""
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def _expected(part: Path) -> Iterator[None]:
    """Name a part in the error if what is read of it is not what a run writes. A part that is gone was merged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except NOT_A_PART as error:
        raise ArgumentError(
            f"expected inputs that are done in {part}, got something else: remove it, and its inputs are done again "
            f"({' '.join(str(error).split())[:200]})"
        ) from error


def _ids(part: Path) -> list[int]:
    """The inputs in a part."""
    with _expected(part):
        if not stat.S_ISREG((status := part.lstat()).st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > MOST_BYTES:  # of holes, which take no room on disk
            raise ValueError(f"it has {status.st_size:,} bytes, expected {MOST_BYTES:,} at most")
        if pq.read_schema(part) != PART_SCHEMA:
            raise ValueError("it has different columns")
        if (rows := pq.read_metadata(part).num_rows) > MOST_ROWS:
            raise ValueError(f"it claims to have {rows:,} rows, expected {MOST_ROWS:,} at most")
        ids = [int(number) for number in pq.read_table(part, columns=["idx"])["idx"].to_pylist()]
        if len(set(ids)) < len(ids):
            raise ValueError("it has an input twice")
        return ids


def rows_of(part: Path) -> Any:
    """The rows in a part without their thetas, in order of id."""
    with _expected(part):
        table = table_of(part.read_bytes()).select(SCHEMA.names)
        expect_sound(table)
        return table


def thetas_of(part: Path, shape: tuple[int, ...]) -> dict[int, NDArray[np.float32]]:
    """The theta of each input in a part, one number or as many as the shape has."""
    with _expected(part):
        footer, size = pq.read_metadata(part), math.prod(shape)
        chunks = (
            footer.row_group(i).column(k) for i in range(footer.num_row_groups) for k in range(footer.num_columns)
        )
        claimed = sum(chunk.num_values for chunk in chunks if chunk.path_in_schema.startswith("theta."))
        if claimed > footer.num_rows * size:  # before they are read: a billion equal numbers take a few kilobytes there
            raise ValueError(f"it claims {claimed:,} values of theta, expected {footer.num_rows:,} x {size:,} at most")
        table = pq.read_table(part, columns=["idx", "theta"])
        flat = table["theta"].combine_chunks()
        ends, values = flat.offsets.to_numpy(), flat.values.to_numpy()
        thetas = {int(i): values[ends[k] : ends[k + 1]] for k, i in enumerate(table["idx"].to_pylist())}
        for number, theta in thetas.items():
            if theta.size not in (1, size):
                raise ValueError(f"theta of example {number} has {theta.size:,} values, expected 1 or {size:,}")
        return {number: theta.reshape(shape) if theta.size > 1 else theta for number, theta in thetas.items()}
