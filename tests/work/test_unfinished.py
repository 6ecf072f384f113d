"""Parts of a run under way: what is none is named, with what to do about it."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anisocert.errors import ArgumentError
from anisocert.runs.files import MOST_BYTES
from anisocert.work._merging import _thetas
from anisocert.work.unfinished import MOST_ROWS, PART_SCHEMA, Unfinished, rows_of, thetas_of


def empty(schema):
    return lambda path: pq.write_table(pa.Table.from_pylist([], schema), path)


def cut(path):
    pq.write_table(pa.Table.from_pylist([{"idx": 1, "theta": [1.0]}], PART_SCHEMA), path)
    path.write_bytes(path.read_bytes()[:-20])


def huge(path):
    """Whole, with a hole before its footer, which takes no room on disk."""
    pq.write_table(pa.Table.from_pylist([{"idx": 1, "theta": [1.0]}], PART_SCHEMA), path)
    content = path.read_bytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    with path.open("r+b") as file:
        file.seek(MOST_BYTES)
        file.write(footer)


WRONG = {
    "junk": lambda path: path.write_bytes(b"junk" * 100),
    "nothing": lambda path: path.write_bytes(b""),
    "cut": cut,
    "huge": huge,
    "a FIFO": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a folder": lambda path: path.mkdir(),
    "without idx": empty(pa.schema([("x", pa.int64())])),
    "idx as text": empty(PART_SCHEMA.set(0, pa.field("idx", pa.string()))),
    "without theta": empty(PART_SCHEMA.remove(PART_SCHEMA.get_field_index("theta"))),
    "too many": lambda path: pq.write_table(pa.Table.from_pylist([{"idx": 1}] * (MOST_ROWS + 1), PART_SCHEMA), path),
    "an input twice": lambda path: pq.write_table(pa.Table.from_pylist([{"idx": 1}] * 2, PART_SCHEMA), path),
    "an input without id": lambda path: pq.write_table(pa.Table.from_pylist([{"gap": 1.0}], PART_SCHEMA), path),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_what_is_no_part_is_named(tmp_path, make):
    unfinished = Unfinished(tmp_path)
    unfinished.path.mkdir()
    unfinished.configuration_file.touch()
    unfinished.add([{"idx": 3, "theta": [0.5, 0.25]}])
    assert list(unfinished.where()) == [3]
    wrong = unfinished.path / "part-000000001-x.parquet"
    make(wrong)
    with pytest.raises(ArgumentError, match=r"part-000000001-x.parquet, got something else: remove it, and its inputs"):
        unfinished.where()


@pytest.mark.parametrize(
    ("thetas", "words"),
    [
        ([[0.5] * 3], "theta of example 0 has 3 values, expected 1 or 4"),
        ([[0.5] * 4, []], "theta of example 1 has 0 values"),
        ([[0.5] * 4, None], "theta of example 1 has 0 values"),
        ([[0.5] * 9, [0.5]], "it claims 10 values of theta, expected 2 x 4 at most"),
    ],
)
def test_thetas_are_one_number_or_fit_the_input(tmp_path, thetas, words):
    rows = [{"idx": number, "theta": theta} for number, theta in enumerate(thetas)]
    pq.write_table(pa.Table.from_pylist(rows, PART_SCHEMA), tmp_path / "part")
    with pytest.raises(ArgumentError, match=f"remove it, and its inputs are done again \\(.*{words}"):
        list(_thetas([0], {0: tmp_path / "part"}, (1, 2, 2)))


def test_thetas_that_a_part_claims_too_many_of_are_not_read(tmp_path, monkeypatch):
    pq.write_table(pa.Table.from_pylist([{"idx": 1, "theta": [0.5] * 5}], PART_SCHEMA), tmp_path / "part")
    monkeypatch.setattr(pq, "read_table", lambda *_, **__: pytest.fail("it is read"))
    with pytest.raises(ArgumentError, match="it claims 5 values of theta"):
        thetas_of(tmp_path / "part", (2, 2))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"reason": "because " * 10_000}, "bytes claim to hold"),  # one text in the file, which all rows repeat
        ({"gap": float("nan")}, "gap"),
    ],
)
def test_rows_that_no_run_writes_are_named_before_they_take_memory(tmp_path, row, words):
    rows = [{"idx": number} | row for number in range(2000)]
    pq.write_table(pa.Table.from_pylist(rows, PART_SCHEMA), tmp_path / "part")
    with pytest.raises(ArgumentError, match=f"remove it, and its inputs are done again \\(.*{words}"):
        rows_of(tmp_path / "part")
