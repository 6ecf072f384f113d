"""A memory that moves: all of it arrives, bit by bit; the old place answers no more; half a move is none."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from anisocert.bounds import Plan, lifetime_alpha
from anisocert.errors import ArgumentError
from anisocert.memory import BrokenMemoryError, Memory, migrate, migrating
from anisocert.memory._head import TABLES
from anisocert.smoothing import Gaussian


@pytest.fixture(params=["lists", "postgresql"])
def there(request, list_store):
    """Where a memory may move to."""
    return request.getfixturevalue("postgres_url") if request.param == "postgresql" else "lists://there"


@pytest.fixture
def here(tmp_path):
    return tmp_path / "memory.sqlite"


def at(proposed, number):
    """The certificate that its votes give at the alpha of a number."""
    alpha = float(lifetime_alpha(0.1, number))
    if proposed.region is None:
        return replace(proposed, seed=7, alpha=alpha)
    p_a, p_b = Plan().estimate(950, 50, 1000, 3, alpha)
    gap = float(Gaussian(1.0).gap(p_a, p_b))
    region = proposed.region.scaled(min(1.0, gap / proposed.gap) * (1 - 1e-9))
    return replace(proposed, seed=7, alpha=alpha, p_a=p_a, p_b=p_b, gap=gap, region=region)


def fill(place, scene):
    """A memory with entries, abstentions, reserved numbers and a probe."""
    proposals = scene(np.random.default_rng(3), 3, 2, 30)
    with Memory.open(place, "abstain", lifetime=0.1) as memory:
        first = memory.reserve([p.id for p in proposals], 7, [p.x for p in proposals])
        for number, proposed in enumerate(proposals, first):
            memory.admit(at(proposed, number))
        memory.expect("model", np.arange(6, dtype=np.float32).reshape(2, 3))
        memory.reserve([99], 7, [[9.0, 9.0, 9.0]])
    return content(place)


def content(place):
    with Memory.open(place, read_only=True) as memory, memory._ledger.transaction(write=False):
        return memory._ledger.head, [list(memory._ledger.rows(table)) for table in TABLES]


def test_there_and_back(here, there, scene, tmp_path):
    before = fill(here, scene)
    assert (before[0].entries > 5, before[0].submissions, before[0].numbers) == (True, 30, 31)
    found = migrate(here, there)
    assert (found.ok, found.entries) == (True, before[0].entries)
    assert content(there) == before
    migrate(there, tmp_path / "back.sqlite")
    assert content(tmp_path / "back.sqlite") == before
    with Memory.open(tmp_path / "back.sqlite") as memory:
        assert (memory.lifetime, memory.policy, memory.check().ok) == (0.1, "abstain", True)
        assert memory.reserve([100], 7, [[1.0, 1.0, 1.0]]) == 32


def test_the_old_one_is_closed_for_those_who_have_it_open_too(here, there, scene, proposal):
    fill(here, scene)
    with Memory.open(here) as open_before, Memory.open(here, read_only=True) as reading:
        migrate(here, there)
        for step in (
            lambda: open_before.admit(proposal(500, 0, [0, 0, 0], [1, 1, 1])),
            lambda: open_before.lookup([0.0, 0.0, 0.0]),
            lambda: reading.lookup([0.0, 0.0, 0.0]),
            lambda: open_before.reserve([5], 8, [[0.0, 0.0, 0.0]]),
        ):
            with pytest.raises(ArgumentError, match=r"as it was opened, got .*, whose promises were moved to an"):
                step()
    for read_only in (False, True):
        for policy in (None, "inherit"):
            with pytest.raises(ArgumentError, match="whose promises were moved to another place"):
                Memory.open(here, policy, read_only=read_only)
    with pytest.raises(ArgumentError, match="were moved"):
        migrate(here, "lists://third")


def test_only_into_an_empty_one(here, there, scene, proposal):
    before = fill(here, scene)
    with Memory.open(there) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    taken = content(there)
    with pytest.raises(ArgumentError, match=r"expected an empty memory to copy into, got .*, which is in use"):
        migrate(here, there)
    assert (content(here), content(there)) == (before, taken)
    with pytest.raises(ArgumentError, match="in use"):  # itself
        migrate(here, here)
    with Memory.open(there) as memory:
        memory.reset()
    with pytest.raises(ArgumentError, match="expected a memory that has been used"):
        migrate(there, there)
    migrate(here, there)
    assert content(there) == before


def test_what_is_broken_does_not_move(here, there, proposal, refit_memory):
    import sqlite3

    with Memory.open(here) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    with sqlite3.connect(here) as db:
        db.execute("UPDATE entries SET votes = 7")
    db.close()
    refit_memory(here)
    with pytest.raises(BrokenMemoryError, match="expected a memory that keeps its promises"):
        migrate(here, there)
    assert not Memory.exists(there)


def test_an_error_on_the_way_leaves_nothing_there(here, there, scene, monkeypatch):
    before = fill(here, scene)
    with Memory.open(there) as memory:
        store = type(memory._ledger.store)
        empty = content(there)
    real = store.append

    def append(self, head, table, rows):
        real(self, head, table, rows)
        if table == "submissions":
            raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(store, "append", append)
        with pytest.raises(InterruptedError):
            migrate(here, there)
    assert (content(here), content(there)) == (before, empty)


def test_who_writes_meanwhile_keeps_the_old_one_open(here, there, scene, monkeypatch):
    before = fill(here, scene)
    real = migrating._check

    def check(target, copied):
        with Memory.open(here) as memory:
            memory.reserve([200], 7, [[5.0, 5.0, 5.0]])
        return real(target, copied)

    with monkeypatch.context() as patched:
        patched.setattr(migrating, "_check", check)
        with pytest.raises(ArgumentError, match=r"got changes, which .* lacks: stop those processes and begin again"):
            migrate(here, there)
    assert content(here)[0].numbers == before[0].numbers + 1
    with pytest.raises(ArgumentError, match="a copy that anisocert memory migrate has not completed"):
        Memory.open(there)
    migrate(here, there)
    assert content(there)[0].numbers == before[0].numbers + 1


class Killed(BaseException):
    """In place of SIGKILL, for stores that end with the process."""


def _killed(*_):
    raise Killed


def interrupted(here, there, scene, monkeypatch):
    """What a memory holds whose move is killed once the copy is there, and the old memory still in use."""
    before = fill(here, scene)
    with monkeypatch.context() as patched:
        patched.setattr(migrating, "_check", _killed)
        with pytest.raises(Killed):
            migrate(here, there)
    return before


@pytest.mark.parametrize("step", ["_check", "_release"])
def test_an_interrupted_move_never_leaves_two_in_use(here, there, scene, step, monkeypatch):
    """Either of which would break what the other one promises. Repeated, it is completed."""
    before = fill(here, scene)
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(migrating, step, _killed)
            with pytest.raises(Killed):
                migrate(here, there)
        for read_only in (False, True):
            for policy in (None, "abstain"):
                with pytest.raises(ArgumentError, match="a copy that anisocert memory migrate has not completed: rep"):
                    Memory.open(there, policy, read_only=read_only)
    if step == "_check":
        assert content(here) == before
    else:
        with pytest.raises(ArgumentError, match="were moved to another place"):
            Memory.open(here)
    found = migrate(here, there)
    assert (found.ok, found.entries, content(there)) == (True, before[0].entries, before)
    with pytest.raises(ArgumentError, match="were moved to another place"):
        migrate(here, there)


@pytest.mark.parametrize(("step", "answer"), [("_check", [True, False]), ("_release", [False, False])])
def test_a_killed_move_never_leaves_two_in_use(here, tmp_path, proposal, step, answer):
    with Memory.open(here) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    target = tmp_path / "there.sqlite"
    code = f"""
import os
from anisocert.memory import migrating
migrating.{step} = lambda *_: os._exit(9)
migrating.migrate({str(here)!r}, {str(target)!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert [_answers(place) for place in (here, target)] == answer
    assert migrate(here, target).ok
    assert [_answers(place) for place in (here, target)] == [False, True]


def _answers(place):
    try:
        with Memory.open(place) as memory:
            return memory.lookup([0.0, 0.0]) is not None
    except ArgumentError:
        return False


def test_a_copy_that_waits_for_another_memory_is_not_replaced(here, there, scene, proposal, monkeypatch, tmp_path):
    """It may be the only one: its source is closed."""
    before = fill(here, scene)
    with monkeypatch.context() as patched:
        patched.setattr(migrating, "_release", lambda *_: None)
        migrate(here, there)
    with Memory.open(tmp_path / "other.sqlite") as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    with pytest.raises(ArgumentError, match=r"expected an empty memory to copy into, got .*, which is in use"):
        migrate(tmp_path / "other.sqlite", there)
    migrate(here, there)
    assert content(there) == before


def test_a_copy_that_another_process_has_opened_meanwhile_is_not_emptied(here, there, scene, monkeypatch):
    """Two moves at once: what one of them has put in use may have answered somebody."""
    before = interrupted(here, there, scene, monkeypatch)
    real = migrating._is_earlier_copy

    def opened_meanwhile(found, source):
        assert real(found, source)
        migrating._release(there, found)
        return True

    monkeypatch.setattr(migrating, "_is_earlier_copy", opened_meanwhile)
    with pytest.raises(ArgumentError, match="now has policy"):
        migrate(here, there)
    assert content(there) == before


def test_a_copy_that_is_opened_before_it_is_emptied_stays(here, there, scene, monkeypatch):
    """Two moves at once: one has announced that it makes the copy anew, and the other completes the move meanwhile."""
    before = interrupted(here, there, scene, monkeypatch)
    real = migrating.Ledger.reset

    def completed_meanwhile(ledger):
        monkeypatch.setattr(migrating.Ledger, "reset", real)
        assert migrate(here, there).ok
        ledger.reset()

    monkeypatch.setattr(migrating.Ledger, "reset", completed_meanwhile)
    with pytest.raises(ArgumentError, match="to empty, got 'abstain': open it again"):
        migrate(here, there)
    assert content(there) == before


def test_a_copy_that_was_left_behind_is_never_opened(here, there, scene, tmp_path, monkeypatch):
    """It holds all that the old one held: in use beside the other, it would be a second system."""
    before = interrupted(here, there, scene, monkeypatch)
    assert migrate(here, tmp_path / "third.sqlite").ok
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"expected a memory in use, got .*, whose promises were moved"):
            migrate(here, there)
        with pytest.raises(ArgumentError, match="a copy that anisocert memory migrate has not completed"):
            Memory.open(there)
    assert content(tmp_path / "third.sqlite") == before


def closed(here, arrived):
    with migrating._opened(here) as old, old.transaction(write=True):
        old.append("entries", [], policy=migrating.MOVED + migrating._token(arrived))


def test_two_moves_to_one_place_at_once_are_completed_by_a_third(here, there, scene, monkeypatch):
    """One closes the old memory while the other makes the copy anew: it is still the one that was meant."""
    before = interrupted(here, there, scene, monkeypatch)
    with migrating._opened(there) as ledger:
        first = ledger.head

    def closed_by_the_first(target, arrived):
        closed(here, first)
        return "checked"

    with monkeypatch.context() as patched:
        patched.setattr(migrating, "_check", closed_by_the_first)
        with pytest.raises(ArgumentError, match="were moved to another place"):
            migrate(here, there)
    assert migrate(here, there).ok
    assert content(there) == before


def test_a_copy_that_was_emptied_before_the_old_memory_was_closed_is_made_again(here, there, scene, monkeypatch):
    before = interrupted(here, there, scene, monkeypatch)

    def closed_by_the_first(ledger, other, **_):
        closed(here, other.head)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(migrating.Ledger, "copy_to", closed_by_the_first)
        with pytest.raises(Killed):
            migrate(here, there)
    with migrating._opened(there) as ledger:
        assert ledger.head.entries == 0
    assert migrate(here, there).ok
    assert content(there) == before


def test_a_copy_that_is_replaced_cannot_be_opened_by_who_made_it(here, there, scene, monkeypatch):
    interrupted(here, there, scene, monkeypatch)
    with migrating._opened(there) as ledger:
        arrived = ledger.head
    with monkeypatch.context() as patched:
        patched.setattr(migrating.Ledger, "reset", _killed)
        with pytest.raises(Killed):
            migrate(here, there)
    with pytest.raises(BrokenMemoryError, match="does not hold what was copied"):
        migrating._release(there, arrived)
    assert migrate(here, there).ok
    with Memory.open(there) as memory:
        assert memory.policy == "abstain"


def test_an_empty_file_is_an_empty_memory(here, scene, tmp_path):
    before = fill(here, scene)
    (tmp_path / "there.sqlite").touch()
    migrate(here, tmp_path / "there.sqlite")
    assert content(tmp_path / "there.sqlite") == before
