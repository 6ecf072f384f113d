"""Tables that claim more than their files hold, or what no run has."""

from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anisocert.errors import ArgumentError
from anisocert.runs import read_run
from anisocert.runs.rows import SCHEMA, SELECTOR, expect_sound, table_of

COUNTING = pa.proxy_memory_pool(pa.default_memory_pool())  # outlives what is taken from it


def packed(table, **options):
    written = pa.BufferOutputStream()
    pq.write_table(table, written, **options)
    return written.getvalue().to_pybytes()


def repeated(text, count):
    """The same text many times, which takes a file little more than once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def columns(count, **more):
    return pa.table({"idx": np.arange(count), "radius": np.random.default_rng(0).random(count)} | more)


def test_columns_of_a_run_in_order_of_id():
    table = pa.table({"idx": [3, 1], "reason": ["b", "a"], "memory_note": ["kept", None], "else": [1, 2]})
    found = table_of(packed(table))
    none = dict.fromkeys(SELECTOR)
    assert found.to_pylist() == [
        {"idx": 1, "reason": "a", "memory_note": None} | none,
        {"idx": 3, "reason": "b", "memory_note": "kept"} | none,
    ]
    texts = [("reason", pa.string()), ("memory_note", pa.string())]
    selector = [SCHEMA.field(name) for name in SELECTOR]
    assert found.schema == pa.schema([("idx", pa.int64()), *texts, *selector])


def test_a_large_honest_table_is_read():
    """Twenty-seven columns, most of them the same in all rows, as in a run of easy inputs."""
    count = 20_000
    rng = np.random.default_rng(0)
    constant = {field.name: pa.array(["fixed" if pa.types.is_string(field.type) else 1] * count, field.type)
                for field in SCHEMA if not pa.types.is_boolean(field.type)}  # fmt: skip
    table = pa.table(constant | {"idx": np.arange(count), "seconds": rng.random(count).round(4)})
    assert table_of(packed(table)).num_rows == count


@pytest.mark.parametrize(
    "table",
    [
        lambda: packed(pa.table({"idx": np.zeros(5_000_000, np.int64)})),
        lambda: packed(
            pa.table({"idx": np.arange(20_000), "reason": repeated("x" * 10_000, 20_000)}), store_schema=False
        ),
        lambda: packed(pa.table({"idx": [1], "reason": ["x" * 50_000_000]}), compression="zstd"),
    ],
    ids=["rows", "texts", "compression"],
)
def test_a_table_that_grows_is_refused_before_it_does(table):
    content = table()
    assert len(content) < 400_000
    usual = pa.default_memory_pool()
    pa.set_memory_pool(COUNTING)
    try:
        with pytest.raises(ArgumentError, match="cannot be read"):
            table_of(content)
    finally:
        pa.set_memory_pool(usual)
    assert COUNTING.max_memory() < 5_000_000


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"radius": [1.0]}),
        pa.table({"idx": ["1"]}),
        pa.table({"idx": [1, None]}),
        pa.table({"idx": [1], "reason": [["nested"]]}),
        pa.table([pa.array([1]), pa.array([2])], names=["idx", "idx"]),
    ],
    ids=["no ids", "texts as ids", "a row without one", "lists", "twice"],
)
def test_tables_that_no_run_has(table):
    with pytest.raises(ArgumentError, match="cannot be read"):
        table_of(packed(table))


def test_damaged_tables_are_errors_of_ours():
    honest, rng = packed(columns(50)), np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(honest)
        damaged[int(rng.integers(len(honest)))] ^= 1 << int(rng.integers(8))
        try:
            table_of(bytes(damaged))
        except ArgumentError:
            refused += 1
    assert refused > 20


def test_numbers_have_the_types_of_a_run():
    """Else what reads them would store them as they are."""
    wide = columns(3, votes=[1000.0] * 3)
    assert table_of(packed(wide))["votes"].type == pa.int64()


@pytest.mark.parametrize(
    ("name", "values", "complaint"),
    [
        ("votes", [-1], "expected votes to be at least 0, got -1"),
        ("label", [-5], "expected label to be at least -1, got -5"),
        ("prediction", [-2], "expected prediction to be at least -1, got -2"),
        ("radius", [float("inf")], "expected finite numbers in radius"),
        ("gap", [float("nan")], "expected gap to be at least 0.0, got nan"),
        ("proxy_radius", [-1.0], "expected proxy_radius to be at least 0.0, got -1.0"),
        ("alpha", pa.array([None], pa.float64()), "expected alpha beside votes in every row"),
        ("votes", ["many"], "expected int64 in votes, got string"),
        ("top_votes", [1.5], "expected int64 in top_votes, got double"),
    ],
)
def test_values_that_no_run_has_are_refused(whole, name, values, complaint):
    table = read_run(whole).table.slice(0, 1)
    with pytest.raises(ArgumentError, match=complaint):
        expect_sound(table.set_column(table.column_names.index(name), name, pa.array(values)))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"memory_radius": ["far"]}, "expected double in memory_radius, got string"),
        ({"memory_radius": [float("inf")]}, "expected finite numbers in memory_radius"),
        ({"memory_radius": [None]}, "expected memory_radius in every row, got none in some"),
        ({"memory_radius": None}, "or none of them, got memory_prediction, memory_proxy_radius, memory_note"),
        ({"memory_prediction": [-2]}, "expected memory_prediction to be at least -1, got -2"),
        ({"memory_note": ["mine"]}, "expected memory_note to be one of kept, shrunk, inherited, abstained, got 'mine'"),
    ],
)
def test_answers_that_no_memory_gives_are_refused(whole, changes, complaint):
    honest = {"memory_prediction": [3], "memory_radius": [0.5], "memory_proxy_radius": [0.5], "memory_note": ["kept"]}
    table = read_run(whole).table.slice(0, 1)
    for columns, words in ((honest, None), (honest | changes, complaint)):
        answered = table
        for name, values in columns.items():
            answered = answered if values is None else answered.append_column(name, pa.array(values))
        with nullcontext() if words is None else pytest.raises(ArgumentError, match=words):
            expect_sound(answered)
