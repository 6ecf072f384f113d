"""Backups with the stores' own tools, taken while a memory is in use: what they hold is a whole memory."""

import sqlite3
import threading

import numpy as np
import pytest

from anisocert.memory import Memory


def told_while(backup, memory, proposals):
    """Ids that were acknowledged before a backup that is taken while others are admitted, and all ids."""
    half = len(proposals) // 3
    before = [c.id for c in map(memory.admit, proposals[:half]) if c.note in ("kept", "shrunk")]
    taking = threading.Thread(target=backup)
    taking.start()
    more = [c.id for c in map(memory.admit, proposals[half:]) if c.note in ("kept", "shrunk")]
    taking.join()
    return before, before + more


def check_restored(place, before, everything):
    """It holds what was acknowledged before, perhaps more, in order; and works."""
    with Memory.open(place) as restored:
        stored = [c.id for c in restored.entries()]
        assert stored[: len(before)] == before
        assert stored == everything[: len(stored)]
        assert restored.check().ok
        return restored.generation


@pytest.fixture
def proposals(scene):
    return scene(np.random.default_rng(8), 4, 2, 45)


def test_sqlite(tmp_path, proposals):
    path, copy = tmp_path / "memory.sqlite", tmp_path / "copy.sqlite"

    def backup():  # as .backup in the sqlite3 shell does
        with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
            source.backup(target, pages=1)
        source.close()
        target.close()

    with Memory.open(path) as memory:
        before, everything = told_while(backup, memory, proposals)
        assert check_restored(copy, before, everything) == memory.generation


def test_postgresql(postgres, postgres_url, proposals, tmp_path):
    name = postgres_url.rpartition("memory=")[2]

    def backup():
        postgres.tool("pg_dump", "-Fc", f"--schema={name}", f"--file={tmp_path / 'dump'}", "postgres")

    with Memory.open(postgres_url) as memory:
        before, everything = told_while(backup, memory, proposals)
        generation = memory.generation
    postgres.tool("createdb", f"{name}_restored")
    postgres.tool("pg_restore", "--exit-on-error", f"--dbname={name}_restored", str(tmp_path / "dump"))
    assert check_restored(postgres.url(name, database=f"{name}_restored"), before, everything) == generation
