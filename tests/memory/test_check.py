"""A memory that was broken from outside says so."""

import sqlite3

import numpy as np
import pytest

from anisocert.memory import BrokenMemoryError, Conflict, Memory


def test_broken_memory_says_so_and_stops(tmp_path, proposal):
    path = tmp_path / "memory.sqlite"
    with Memory.open(path) as memory:
        for i in range(100):
            memory.admit(proposal(i, i % 2, [3.0 * i, 0], [1, 1]))
        assert memory.check().ok
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET axes = (SELECT axes FROM entries WHERE id = 5) WHERE id = 5")
        wide = np.array([2.5, 1.0]).tobytes()
        db.execute("UPDATE entries SET axes = ? WHERE id = 40", (wide,))
    with Memory.open(path) as memory:
        result = memory.check()
        assert not result.ok
        assert result.conflicts == (Conflict((39, 40), (1, 0)), Conflict((40, 41), (0, 1)))
        with pytest.raises(BrokenMemoryError, match=r"input (39|40), class (0|1), and of input (39|40)"):
            memory.lookup([118.0, 0])
        with pytest.raises(BrokenMemoryError):
            memory.admit(proposal(1000, 0, [118.0, 0], [0.1, 0.1]))
        assert len(memory) == 100
        assert memory.lookup([0, 0]).prediction == 0


def test_check_does_not_trust_what_is_in_memory(tmp_path, proposal):
    path = tmp_path / "memory.sqlite"
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        memory.admit(proposal(1, 1, [3, 0], [1, 1]))
        with sqlite3.connect(path) as db:
            db.execute("UPDATE entries SET axes = ? WHERE id = 1", (np.array([2.0]).tobytes(),))
        assert memory.check().conflicts == (Conflict((0, 1), (0, 1)),)


def test_touching_is_a_conflict(tmp_path, proposal):
    path = tmp_path / "memory.sqlite"
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1], 1))
        memory.admit(proposal(1, 1, [2, 0], [0.5, 0.5], 1))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET axes = ? WHERE id = 1", (np.array([1.0]).tobytes(),))
    with Memory.open(path) as memory:
        assert not memory.check().ok


def test_damaged_file(tmp_path, proposal):
    path = tmp_path / "memory.sqlite"
    with Memory.open(path) as memory:
        for i in range(200):
            memory.admit(proposal(i, 0, np.full(200, float(i)), np.arange(1.0, 201.0)))
    data = bytearray(path.read_bytes())
    for place in range(5 * 16384, len(data), 16384):
        data[place : place + 64] = bytes(64)
    path.write_bytes(data)
    with pytest.raises(BrokenMemoryError):
        Memory.open(path).check()
