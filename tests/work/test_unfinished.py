"""Parts of a run under way: what is none is named, with what to do about it."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anisocert.errors import ArgumentError
from anisocert.work.unfinished import MOST_ROWS, PART_SCHEMA, Unfinished


def empty(schema):
    return lambda path: pq.write_table(pa.Table.from_pylist([], schema), path)


def cut(path):
    pq.write_table(pa.Table.from_pylist([{"idx": 1, "theta": [1.0]}], PART_SCHEMA), path)
    path.write_bytes(path.read_bytes()[:-20])


WRONG = {
    "junk": lambda path: path.write_bytes(b"junk" * 100),
    "nothing": lambda path: path.write_bytes(b""),
    "cut": cut,
    "a FIFO": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a folder": lambda path: path.mkdir(),
    "without idx": empty(pa.schema([("x", pa.int64())])),
    "idx as text": empty(PART_SCHEMA.set(0, pa.field("idx", pa.string()))),
    "without theta": empty(PART_SCHEMA.remove(PART_SCHEMA.get_field_index("theta"))),
    "too many": lambda path: pq.write_table(pa.Table.from_pylist([{"idx": 1}] * (MOST_ROWS + 1), PART_SCHEMA), path),
    "an input without id": lambda path: pq.write_table(pa.Table.from_pylist([{"gap": 1.0}], PART_SCHEMA), path),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_what_is_no_part_is_named(tmp_path, make):
    unfinished = Unfinished(tmp_path)
    unfinished.path.mkdir()
    unfinished.add([{"idx": 3, "theta": [0.5, 0.25]}])
    assert list(unfinished.where()) == [3]
    wrong = unfinished.path / "part-000000001-x.parquet"
    make(wrong)
    with pytest.raises(ArgumentError, match=r"part-000000001-x.parquet, got something else: remove it, and its inputs"):
        unfinished.where()
