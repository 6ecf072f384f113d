"""Backups with the stores' own tools hold a whole memory; one that is put back is noticed by whoever knows more."""

import sqlite3
import threading

import numpy as np
import pytest

from anisocert.memory import BrokenMemoryError, Memory
from anisocert.memory._head import TABLES
from anisocert.memory.opening import store_of


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


def state_of(store):
    with store.begin(write=False) as (head, _):
        return head, {table: list(store.rows(table)) for table in TABLES}


def put_back(place, state):
    """Another process restores a backup under those who have the memory open."""
    head, rows = state
    store = store_of(place)(str(place), "inherit")
    store.reset("inherit")
    with store.begin(write=True):
        for table in TABLES:
            store.append(head, table, rows[table])
    store.close()


USES = {
    "numbers": ({"lifetime": 0.1}, lambda memory, proposal, i: memory.reserve([i], i, [[i, 0.0]])),
    "submissions": ({}, lambda memory, proposal, i: memory.admit(proposal(i, 0, [i, 0.0]))),  # which abstain
    "entries": ({}, lambda memory, proposal, i: memory.admit(proposal(i, 0, [9.0 * i, 0.0], [1, 1]))),
}


@pytest.mark.parametrize("what", USES)
def test_an_older_state_is_noticed_by_those_who_know_better(place, proposal, what):
    """Or a number would be given twice, with its alpha."""
    options, use = USES[what]
    with Memory.open(place, **options) as memory, Memory.open(place, read_only=True) as reader:
        use(memory, proposal, 1)
        older = state_of(memory._ledger.store)
        use(memory, proposal, 2)
        use(memory, proposal, 3)
        newest = state_of(memory._ledger.store)
        put_back(place, older)
        # As it is; with as many rows again, but others; and with more.
        for more in ((), (4, 5), (6, 7)):
            with Memory.open(place) as unknowing:
                for i in more:
                    use(unknowing, proposal, i)
            for step in (lambda: use(memory, proposal, 8), lambda: memory.attempts([3.0, 0.0]), lambda: len(memory)):
                with pytest.raises(BrokenMemoryError, match=r"expected the 3 \w+ that this process has seen"):
                    step()
            assert "an older state is in its place" in memory.check().damage[0]
        assert reader.attempts([1.0, 0.0]) == (what != "entries")  # it had not looked since: what it knows is there
        put_back(place, newest)
        use(memory, proposal, 8)
        assert memory.check().ok
