"""One table of cases for every store; a store of Python lists shows that a new one is one class."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anisocert.bounds import lifetime_alpha
from anisocert.errors import ArgumentError
from anisocert.memory import Memory, shown
from anisocert.memory import _kinds as kinds
from anisocert.memory._head import TABLES
from anisocert.memory._projection import Projection
from anisocert.memory.postgres import PostgresStore
from anisocert.memory.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "sqlite of this process", "lists", "postgresql"])
def store(request, tmp_path, list_store):
    if request.param == "lists":
        yield list_store(None, "inherit")
        return
    if request.param == "postgresql":
        opened = PostgresStore(request.getfixturevalue("postgres_url"), "inherit")
    else:
        opened = SqliteStore(None if "process" in request.param else str(tmp_path / "m.sqlite"), "inherit")
    yield opened
    opened.close()


def entry(number):
    return (number, 0, 10, 0.5, "fixed", "model", "kept", 1.0, 1.0, 7.0, "{}", b"theta", b"c%d" % number, b"axes")


VALUES = {
    "entries": [entry(7), entry(5)],
    "submissions": [(b"votes", b"x", 0.5, None), (b"others", b"x", 0.5, 3)],
    "numbers": [(b"name", b"x", b"noise", 0.5), (b"name", b"x", b"noise", 0.25)],
}


def fill(store):
    with store.begin(write=True) as (head, _):
        for table in TABLES:
            head, rows = head.extended(table, VALUES[table])
            store.append(head, table, rows)
    return head


def test_a_new_store_is_empty(store):
    with store.begin(write=False) as (head, entries):
        assert (head.policy, head.entries, list(entries)) == ("inherit", 0, [])
        assert [list(store.rows(table)) for table in TABLES] == [[], [], []]
        assert list(store.columns(["id"])) == []
    assert store.damage() == []


def test_rows_are_as_they_were_written(store):
    written = fill(store)
    with store.begin(write=False) as (head, entries):
        assert head == written
        assert [row[1:-1] for row in entries] == VALUES["entries"]
        for table in TABLES:
            rows = list(store.rows(table))
            assert [row[0] for row in rows] == [1, 2]
            assert [row[1:-1] for row in rows] == VALUES[table]
            assert rows[-1][-1] == getattr(head, f"{table}_link")
            assert list(store.rows(table, 1)) == rows[1:]
        assert list(store.columns(["id", "time"])) == [(7, 7.0), (5, 7.0)]
        assert list(store.regions([2, 1, 2])) == [(b"c5", b"axes"), (b"c7", b"axes"), (b"c5", b"axes")]
    assert store.nbytes > 0


def test_begin_gives_what_was_stored_since(store):
    head = fill(store)
    for generation, after, ids in ((head.generation, 0, [7, 5]), (head.generation, 1, [5]), (head.generation, 2, []),
                                   ("another", 2, [7, 5]), ("", 1, [7, 5])):  # fmt: skip
        with store.begin(False, generation, after) as (_, entries):
            assert [row[1] for row in entries] == ids


def test_rows_are_found_by_every_key(store):
    fill(store)
    with store.begin(write=False):
        for table in TABLES:
            rows = list(store.rows(table))
            for column in kinds.keys(table):
                place = list(kinds.KINDS[table]).index(column)
                for value in {row[place] for row in rows} - {None}:
                    assert store.find(table, column, value) == [row for row in rows if row[place] == value]
                assert store.find(table, column, b"nothing" if isinstance(rows[0][place], bytes) else 99) == []


def test_all_or_nothing(store):
    before = fill(store)

    def half():
        with store.begin(write=True) as (head, _):
            for table in TABLES:
                head, rows = head.extended(table, VALUES[table] if table == "numbers" else [])
                store.append(head, table, rows)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        half()
    with store.begin(write=False) as (head, entries):
        assert (head, len(list(entries)), len(list(store.rows("numbers")))) == (before, 2, 2)


def test_reset_drops_rows_and_keeps_the_policy(store):
    before = fill(store)
    with store.begin(write=True):
        store.append(replace(before, lifetime=0.1), "entries", [])
    with pytest.raises(ArgumentError, match="expected a memory with policy 'abstain' to empty, got 'inherit'"):
        store.reset("abstain")  # as of a process that does not know what it has become
    with store.begin(write=False) as (head, _):
        assert head.entries == 2
    store.reset("inherit")
    with store.begin(False, before.generation, 2) as (head, entries):
        assert (head.policy, head.lifetime, head.entries, list(entries)) == ("inherit", 0.1, 0, [])
        assert head.generation != before.generation
        assert [list(store.rows(table)) for table in TABLES] == [[], [], []]
    fill(store)  # numbers begin anew


def test_what_one_stores_the_other_knows(place, proposal):
    assert not Memory.exists(place)
    with Memory.open(place, "abstain") as one, Memory.open(place, read_only=True) as other:
        assert Memory.exists(place)
        one.admit(proposal(0, 1, [0, 0], [1, 1]))
        assert (other.policy, len(other), other.lookup([0.5, 0.0]).prediction) == ("abstain", 1, 1)
        one.admit(proposal(1, 0, [1.5, 0], [1, 1]))
        assert [entry.note for entry in other.entries()] == ["kept", "shrunk"]
        assert (other.find(1).prediction, other.stats().entries, other.attempts([1.5, 0.0])) == (0, 2, 1)
        assert other.check().ok
        with pytest.raises(ArgumentError, match=r"opened for writing, got .*memory"):
            other.reset()
        with pytest.raises(ArgumentError, match="'abstain', under which"):
            Memory.open(place, "inherit")
        one.reset()
        assert other.lookup([0.5, 0.0]) is None
        one.admit(proposal(0, 1, [5.0], [1.0], model_hash="another"))
        assert other.lookup([5.5]).prediction == 1


def test_after_a_reset_inputs_may_have_another_shape(place, proposal):
    """Also where there were so many that they were projected."""
    with Memory.open(place) as memory:
        memory.admit_all([proposal(i, 0, [10.0 * i, 0.5], [1, 2]) for i in range(70)])
        memory.reset()
        assert memory.lookup([0.0, 0.0, 0.0]) is None
        assert memory.covers([0.0]) == []
        assert memory.admit(proposal(0, 0, [1, 2, 3], [1, 2, 3])).note == "kept"


def test_what_interrupts_the_reading_of_promises_damages_none(tmp_path, proposal, monkeypatch):
    """As where there is no room to project them: the next question reads on, and does not call the memory broken."""
    with Memory.open(tmp_path / "m") as memory, Memory.open(tmp_path / "m") as other:
        memory.admit_all([proposal(i, 0, [10.0 * i, 0.5], [1, 2]) for i in range(70)])
        with monkeypatch.context() as patch:
            patch.setattr(Projection, "of", lambda sample: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                other.lookup([690.0, 0.0])
        assert other.lookup([690.0, 0.0]).id == 69


def test_an_error_undoes_a_whole_batch(place, proposal):
    with Memory.open(place) as memory:
        with pytest.raises(ArgumentError, match="expected one of model"):
            memory.admit_all([proposal(0, 1, [0, 0], [1, 1]), proposal(1, 1, [9, 0], [1, 1], model_hash="another")])
        assert (len(memory), memory.submissions, memory.lookup([0.0, 0.0])) == (0, 0, None)
        assert memory.admit(proposal(2, 0, [0, 0], [1, 1])).note == "kept"
        assert memory.check().ok


def test_numbers_are_given_once(place, proposal):
    with Memory.open(place, lifetime=0.1) as memory, Memory.open(place) as other:
        assert (memory.reserve([0, 1], 3, [[0.0], [1.0]]), other.reserve([0], 4, [[0.0]])) == (1, 3)
        assert (memory.attempts([0.0]), memory.attempts([1.0])) == (2, 1)
        with pytest.raises(ArgumentError, match="expected noise that has no number yet"):
            other.reserve([1], 3, [[0.0]])
        abstention = replace(proposal(1, 0, [1.0]), seed=3, alpha=float(lifetime_alpha(0.1, 2)))
        assert other.admit(abstention).note == "abstained"
        assert (memory.submissions, memory.attempts([1.0])) == (1, 1)
        with pytest.raises(ArgumentError, match="each attempt needs a number of its own"):
            memory.admit(replace(abstention, votes=2000))
        assert memory.check().ok


def test_a_copy_has_the_same_promises_and_changes_nothing(place, proposal):
    with Memory.open(place, "abstain", lifetime=0.1) as memory:
        memory.reserve([4], 2**63 + 4, [[0.0, 0.0]])
        memory.admit(replace(proposal(4, 1, [0, 0]), alpha=float(lifetime_alpha(0.1, 1))))
        memory.reset()
    with Memory.open(place, prefer="ball", read_only=True) as memory, memory.copy() as copy:
        assert (copy.place, copy.policy, copy.prefer, copy.lifetime) == (None, "abstain", "ball", None)
    with Memory.open(place.with_name("own.sqlite") if isinstance(place, Path) else f"{place}_own") as memory:
        memory.admit(proposal(0, 1, [0, 0], [1, 1]))
        with memory.copy() as copy:
            assert copy.generation == memory.generation
            assert copy.lookup([0.5, 0.0]).region == memory.lookup([0.5, 0.0]).region
            assert copy.admit(proposal(1, 0, [1.5, 0], [1, 1])).note == "shrunk"
            assert (len(copy), copy.submissions, copy.check().ok) == (2, 2, True)
        assert (len(memory), memory.submissions) == (1, 1)


def test_a_changed_row_is_found_whatever_keeps_it(list_store, proposal):
    with Memory.open("lists://memory") as memory:
        memory.admit(proposal(0, 1, [0, 0], [1, 2]))
    kept = list_store.shared["lists://memory"]
    (row,) = kept["entries"]
    axes = np.array([5.0, 5.0]).tobytes()
    kept["entries"] = [(*row[:-2], axes, row[-1])]
    assert not memory.check().ok


def test_only_the_stores_speak_sql():
    import anisocert

    sources = Path(anisocert.__file__).parent
    speaking = {
        path.parent
        for path in sources.rglob("*.py")
        if re.search(r"sqlite3|psycopg\.|\.execute\(|\b(SELECT [^=]|INSERT INTO|DELETE FROM)", path.read_text())
    }
    assert speaking == {sources / "memory" / "sqlite", sources / "memory" / "postgres"}


def test_a_url_of_no_store_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (Memory.open, Memory.exists):
        with pytest.raises(
            ArgumentError, match=r"expected the path of a file .* begins with mysql://, which is"
        ) as told:
            call("mysql://me:secret@host/db")
        assert "secret" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "printed"),
    [
        ("a:b@c/m.sqlite", "a:b@c/m.sqlite"),
        ("lists://m", "lists://m"),
        ("lists://host:5432/m?sslmode=require", "lists://host:5432/m?sslmode=require"),
        ("lists://me@host/m", "lists://me@host/m"),
        ("lists://me:secret@host:5432/m", "lists://me@host:5432/m"),
        ("lists://:secret@host", "lists://@host"),
        ("lists://me:sec:@/?ret@host/m", "lists://me@host/m"),
        ("lists://me:sec\nret@[::1]/m", "lists://me@[::1]/m"),
        ("lists://host/m?password=sec@ret", "lists://host/m"),
        ("lists://host/m?user=me&Password=secret&sslmode=require", "lists://host/m?user=me&sslmode=require"),
        ("lists://me:secret@host/m?a=b&sslpassword=sec:ret", "lists://me@host/m?a=b"),
        ("lists://host/m?pass%77ord=secret&sslkey=path&oauth_client_secret=secret", "lists://host/m?sslkey=path"),
        ("lists://host/m?scram_client_key=secret", "lists://host/m"),
    ],
)
def test_a_place_is_shown_without_its_passwords(place, printed):
    assert shown(place) == printed
    assert shown(printed) == printed


@pytest.mark.parametrize("place", [None, 5, b"m.sqlite", "", Path("postgresql://user:secret@host/db")])
def test_what_is_no_place_makes_no_file(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError) as raised:
        Memory.open(place)
    assert "secret" not in str(raised.value)
    assert not list(tmp_path.iterdir())
