"""What is published of an experiment: every run's rows and description; thetas, networks and memories stay behind.

So does the probe, a network's scores on a few inputs, which is large where classes are many: it tells workers apart.
Rows are kept without what follows from the other columns, and in the encodings that suit them: a repository holds many.
"""

import hashlib
import io
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anisocert.durable import claim, write_whole
from anisocert.errors import ArgumentError
from anisocert.runs import read_run
from anisocert.runs.files import TABLE, checksum, read_description, write_description

FOLLOWING = ("correct", "p_a", "p_b", "bound_k", "bound_n", "seconds")
"""Columns that follow from label, prediction, votes and the plan, or tell of the machine alone."""
OF_A_LOOK = ("bound_k", "bound_n")
"""What does not follow, and is kept, where the plan stops at looks: the bound is of the best of them."""
ENCODINGS = {pa.int64(): "DELTA_BINARY_PACKED", pa.float64(): "BYTE_STREAM_SPLIT"}


def publish(out: Path, results: Path, force: bool = False) -> list[Path]:
    """Copy the finished runs of an experiment's folder, without their thetas; the copies.

    force: also replace what was not published before.
    """
    runs = sorted(path.parent for path in (out / "runs").glob("*/*/run.json"))
    copies = [results / run.relative_to(out / "runs") for run in runs]
    for run, copy in zip(runs, copies, strict=True):
        if not force:
            _claim(run, copy)
    for run, copy in zip(runs, copies, strict=True):
        copy.mkdir(parents=True, exist_ok=True)
        description, rows = read_description(run), kept_rows(run)
        write_whole(copy / TABLE, partial(Path.write_bytes, data=rows))
        changes = {"files": {TABLE: checksum(copy / TABLE)}, "left_out": "theta", "probe": None}
        write_description(copy, _inside(description, out.resolve()) | changes)
    return copies


def kept_rows(run: Path) -> bytes:
    """The table of a run as it is published."""
    stored, content = read_run(run), io.BytesIO()
    left_out = set(FOLLOWING) - set(() if stored.said("stop") is None else OF_A_LOOK)
    table = stored.table.select([name for name in stored.table.column_names if name not in left_out])
    encoded = {field.name: ENCODINGS[field.type] for field in table.schema if field.type in ENCODINGS}
    pq.write_table(
        table, content, column_encoding=encoded, write_statistics=False, store_schema=False,
        use_dictionary=[name for name in table.column_names if name not in encoded],
    )  # fmt: skip
    return content.getvalue()


def _claim(run: Path, copy: Path) -> None:
    """An error if a run with its thetas, or a table that is not a run's, would be replaced."""
    if not (copy / "run.json").exists():
        if not (copy / TABLE).is_file() or checksum(copy / TABLE) != hashlib.sha256(kept_rows(run)).hexdigest():
            claim(copy / TABLE)
    elif read_description(copy).get("left_out") != "theta":
        raise ArgumentError(
            f"expected no run at {copy}, or one without its thetas, got a whole one: choose another --results, or "
            "replace it with --force"
        )


def _inside(part: Any, out: Path) -> Any:
    """A description whose paths begin in the experiment's folder, wherever that lies on this machine."""
    if isinstance(part, dict):
        return {name: _inside(value, out) for name, value in part.items()}
    return part.replace(f"{out}/", "") if isinstance(part, str) else part
