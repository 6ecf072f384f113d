"""A file whose checksums fit, with values of another type than a memory writes, is called broken in a sentence."""

import json
import sqlite3

import pytest

from anisocert.memory import BrokenMemoryError, Memory

DEEP = "[" * 100_000
FORGED = [
    ("head", "shape", DEEP),
    ("head", "shape", "[2.0]"),
    ("head", "shape", f"[{10**30}]"),
    ("head", "shape", None),
    ("head", "created", "x"),
    ("head", "created", 1e300),
    ("head", "alphas", "x"),
    ("head", "model_hash", 5),
    ("head", "norm", 7),
    ("head", "lifetime", 2.0),
    ("head", "probe", b"abc"),
    ("head", "probe", "text"),
    ("head", "probe_shape", "[2, 1e9]"),
    ("head", "probe_shape", "[2, 1000000000]"),
    ("head", "probe_hash", None),
    ("entries", "certificate", DEEP),
    ("entries", "certificate", "[]"),
    ("entries", "certificate", b"{}"),
    ("entries", "prediction", "x"),
    ("entries", "proxy_radius", b"a"),
    ("entries", "radius", "x"),
    ("entries", "radius", float("inf")),
    ("entries", "id", "x"),
    ("entries", "votes", "x"),
    ("entries", "time", b"\x1b"),
    ("entries", "time", "x"),
    ("entries", "time", 1e300),
    ("entries", "theta", "x"),
    ("entries", "center", "x"),
    ("submissions", "alpha", "x"),
    ("submissions", "reserved", b"x"),
    ("submissions", "input", 5),
]


@pytest.fixture
def path(tmp_path, proposal):
    path = tmp_path / "memory.sqlite"
    with Memory.open(path) as memory:
        memory.expect("model", [[1.0, 2.0, 3.0]])
        memory.admit(proposal(1, 0, [0.0, 0.0], [0.5, 0.5]))
        assert memory.check().ok
    return path


def forge(path, table, column, value):
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    db.close()


def damaged(path, tmp_path):
    """Whether any way of reading it says so; nothing but our own error may come."""
    said = []
    try:
        with Memory.open(path) as memory:
            said += memory.check().damage
            for ask in (memory.stats, lambda: memory.lookup([0.0, 0.0]), lambda: memory.export(tmp_path / "e.npz")):
                try:
                    ask()
                except BrokenMemoryError as error:
                    said.append(str(error))
    except BrokenMemoryError as error:
        said.append(str(error))
    return said


@pytest.mark.parametrize(("table", "column", "value"), FORGED)
def test_a_value_of_another_type(path, tmp_path, refit_memory, table, column, value):
    forge(path, table, column, value)
    refit_memory(path)
    assert damaged(path, tmp_path)


def test_a_shape_that_no_entry_has(tmp_path, refit_memory):
    path = tmp_path / "memory.sqlite"
    Memory.open(path).close()
    for column, value in (("model_hash", "model"), ("norm", 2), ("shape", "[1, 8192, 8192]")):
        forge(path, "head", column, value)
    refit_memory(path)
    with pytest.raises(BrokenMemoryError, match="no shape without an entry"):
        Memory.open(path)


@pytest.mark.parametrize("name", ["id", "num_classes", "p_a", "bound", "norm", "seed", "votes", "method"])
@pytest.mark.parametrize("value", [None, [1], {}, True, 10**400])
def test_a_certificate_with_a_value_of_another_type(path, tmp_path, refit_memory, name, value):
    with sqlite3.connect(path) as db:
        said = json.loads(db.execute("SELECT certificate FROM entries").fetchone()[0])
    db.close()
    forge(path, "entries", "certificate", json.dumps(said | {name: value}))
    refit_memory(path)
    assert damaged(path, tmp_path)


def test_a_value_that_changes_while_the_memory_is_open(path, tmp_path):
    with Memory.open(path) as memory:
        forge(path, "entries", "time", "x")
        for ask in (memory.stats, lambda: memory.export(tmp_path / "e.npz")):
            with pytest.raises(BrokenMemoryError, match="expected a time as time of its entries"):
                ask()
