"""The file: what is in it, what is refused, what is dropped."""

import sqlite3
from dataclasses import fields

import numpy as np
import pytest

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.memory import BrokenMemoryError, Memory
from anisocert.memory import store as store_module


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.sqlite"


def test_every_field_survives(path, proposal):
    proposals = [
        proposal(0, 0, [[0.1, 1 / 3]], [[0.7, 2.0]]),
        proposal(1, 1, np.float32([[9, 0.1]]), 1 / 3),
        proposal(2, 2, [[-9, 1e-200]], [[1e-3, 1e5]]),
    ]
    with Memory.open(path) as memory:
        answers = memory.admit_all(proposals)
    with Memory.open(path) as memory:
        for answer, stored in zip(answers, memory.entries(), strict=True):
            for field in fields(stored):
                before, after = getattr(answer, field.name), getattr(stored, field.name)
                if field.name == "theta":
                    assert np.array_equal(before, after)
                    assert before.dtype == after.dtype
                elif field.name != "x":
                    assert before == after, field.name
    with sqlite3.connect(path) as db:
        row = db.execute("SELECT id, prediction, votes, alpha, method, model_hash, note, time FROM entries").fetchone()
        assert row[:7] == (0, 0, 1000, 0.001, "anisotropic", "model", "kept")
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_one_coordinate_and_two(path, proposal):
    # Lengths at which float32 inputs, float64 inputs and a ball's radius are told apart by their bytes.
    for d in (1, 2):
        for unit in (0.5, 1 / 3):
            memory = Memory()
            wanted = [
                memory.admit(proposal(0, 0, np.full(d, unit), 1 / 7)),
                memory.admit(proposal(1, 0, np.ones(d), 2.0)),
            ]
            assert [c.region for c in memory.entries()] == [c.region for c in wanted]


def test_only_the_owner_may_read(path, proposal):
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        for file in path.parent.iterdir():
            assert file.stat().st_mode & 0o077 == 0


def test_reset_drops_the_raw_inputs(path, proposal):
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((20, 500)).astype(np.float32)
    with Memory.open(path) as memory:
        for i, x in enumerate(inputs):
            memory.admit(proposal(i, 0, x, 1.0))
        found = b"".join(file.read_bytes() for file in path.parent.iterdir())
        assert inputs[3].tobytes()[:64] in found
        memory.reset()
        assert len(memory) == 0
        for file in path.parent.iterdir():
            assert not any(x.tobytes()[:64] in file.read_bytes() for x in inputs)
        assert memory.admit(proposal(0, 0, [1.0], [1.0], model_hash="next")).note == "kept"


def test_policy_stays_with_the_promises(path, proposal):
    with Memory.open(path, "abstain") as memory:
        assert memory.policy == "abstain"
    with Memory.open(path) as memory:
        assert memory.policy == "abstain"
    with Memory.open(path, "inherit") as first:  # nothing promised yet
        first.admit(proposal(0, 0, [0, 0], [1, 1]))
        with pytest.raises(ArgumentError, match=r"'inherit'.*got 'abstain'.*reset"):
            Memory.open(path, "abstain")
        first.reset()
        with Memory.open(path, "worst-case") as second:
            assert second.policy == "worst-case"
            with pytest.raises(ArgumentError, match="open it again"):
                first.lookup([0, 0])


def test_refuses_what_is_no_memory(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(ArgumentError, match="another database"):
        Memory.open(path)
    path.write_bytes(b"not a database at all, but longer than its header" * 100)
    with pytest.raises(BrokenMemoryError, match="no memory"):
        Memory.open(path)
    with pytest.raises(OSError, match="nowhere"):
        Memory.open(path.parent / "nowhere" / "memory.sqlite")


def test_refuses_a_later_format(path):
    Memory.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    with pytest.raises(ArgumentError, match="format 2"):
        Memory.open(path)


def test_notices_that_its_file_is_gone(path, proposal):
    memory = Memory.open(path)
    memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(AnisocertError, match="removed"):
        memory.admit(proposal(1, 0, [5, 0], [1, 1]))
    Memory.open(path).close()
    with pytest.raises(AnisocertError, match="replaced"):
        memory.lookup([0, 0])


def test_says_when_the_file_is_locked(path, proposal, monkeypatch):
    monkeypatch.setattr(store_module, "_WAIT_SECONDS", 0.1)
    with Memory.open(path) as memory, sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(AnisocertError, match="locked"):
            memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        assert memory.lookup([0, 0]) is None  # reading does not wait
        other.execute("ROLLBACK")
        assert memory.admit(proposal(0, 0, [0, 0], [1, 1])).note == "kept"


def test_damaged_entry(path, proposal):
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0, 0], [1, 2, 3]))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET axes = x'0011'")
    with pytest.raises(BrokenMemoryError, match="damaged"):
        Memory.open(path)


def test_stats_and_export(path, proposal, tmp_path):
    with Memory.open(path) as memory:
        assert memory.stats().entries == 0
        assert memory.export(tmp_path / "empty.npz") == 0
        memory.admit(proposal(0, 0, [0, 0.5], [1, 1]))
        memory.admit(proposal(1, 2, [1.5, 0.5], [1, 3]))
        memory.admit(proposal(2, 2, [20, 1 / 3], 2.0))
        found = memory.stats()
        assert (found.entries, found.classes, found.notes) == (3, {0: 1, 2: 2}, {"kept": 2, "shrunk": 1})
        assert (found.norm, found.shape, found.model_hash, found.policy) == (2, (2,), "model", "inherit")
        assert found.created <= found.newest
        assert found.file_bytes > 0
        assert found.median_radius == 1.0
        assert memory.export(tmp_path / "all.npz") == 3
        assert memory.export(tmp_path / "shared.npz", inputs=False) == 3
        stored = list(memory.entries())
    with np.load(tmp_path / "all.npz") as arrays:
        assert np.array_equal(arrays["center"], [c.region.center for c in stored])
        assert np.array_equal(arrays["axes"], [c.region.axes for c in stored])
        assert arrays["prediction"].tolist() == [0, 2, 2]
        assert arrays["note"].tolist() == ["kept", "shrunk", "kept"]
        assert "model" in str(arrays["head"])
    with np.load(tmp_path / "shared.npz") as arrays:
        assert "center" not in arrays
