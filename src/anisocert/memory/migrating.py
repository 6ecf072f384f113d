"""Moving a memory to another store, say from a file to a database: all of it, bit by bit, and then only there.

Two copies in use would be two systems, each of which breaks what the other one promises. So the old one is closed for
good once the new one is proven, provided that nobody has changed the old one meanwhile; the new one opens after that.
Each copy has a token of its own, and the old one is closed with that of the copy that replaces it: no other ever opens.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.memory._head import TABLES, Head
from anisocert.memory._ledger import ARRIVING, MOVED, Ledger
from anisocert.memory.check import Check, check
from anisocert.memory.errors import BrokenMemoryError
from anisocert.memory.memory import Memory
from anisocert.memory.opening import store_of


def migrate(source: str | Path, target: str | Path) -> Check:
    """Move all promises, submissions and numbers from one memory into an empty one; the check of the new one.

    The generation stays, so that runs know the memory that answered them. Nothing is locked meanwhile; if an error ends
    it, the source is as it was. The copy opens only once the source is closed: a process that is killed on the way
    leaves at most one of the two in use, and the same call again completes the move.
    """
    if Memory.exists(target) and (arrived := _waiting(source, target)) is not None:
        verdict = _check(target, arrived)
    else:
        arrived, verdict = _copy(source, target)
    _release(target, arrived)
    return verdict


def _waiting(source: str | Path, target: str | Path) -> Head | None:
    """The head of a copy for which the source is closed already, so that it only has to be opened; None without one."""
    with _opened(source, read_only=True) as old, _opened(target) as new:
        if old.head.policy != MOVED + _token(new.head):
            return None
        arrived = replace(old.head, policy=new.head.policy)
        if not any(getattr(new.head, table) for table in TABLES):  # a move that was to make the copy anew ended there
            with old.transaction(write=False):
                old.copy_to(new, policy=arrived.policy)
        return arrived


def _copy(source: str | Path, target: str | Path) -> tuple[Head, Check]:
    """Copy, check, and close the source: the head of the copy, which is not in use yet, and its check."""
    with Memory.open(source) as old:
        _proven(old.place, old.check())
        with _opened(target) as new, old._ledger.transaction(write=False):
            copied, place = old._ledger.head, new.store.place
            if not any(getattr(copied, table) for table in TABLES):
                raise ArgumentError(f"expected a memory that has been used, got {old.place}, which is empty")
            token = _token(new.head)
            if _is_earlier_copy(new.head, copied):
                with new.transaction(write=True):  # once more, so that whoever made it cannot open it meanwhile
                    new.append("entries", [], policy=f"{ARRIVING}{token}, {new.head.policy}")
                new.reset()
            arrived = replace(copied, policy=f"{ARRIVING}{token}, {copied.policy}")
            old._ledger.copy_to(new, policy=arrived.policy)
        verdict = _check(target, arrived)
        with old._ledger.transaction(write=True):
            if old._ledger.head != copied:
                raise ArgumentError(
                    f"expected nobody to use {old.place} while it is moved, got changes, which {place} lacks: stop "
                    "those processes and begin again"
                )
            old._ledger.append("entries", [], policy=MOVED + token)
    return arrived, verdict


def _token(copy: Head) -> str:
    """What tells this copy from all others, also once it is made anew; a new token if there is none yet."""
    state = copy.policy.partition(",")[0]
    return state.removeprefix(ARRIVING) if state.startswith(ARRIVING) else f" {secrets.token_hex(8)}"


def _is_earlier_copy(copy: Head, source: Head) -> bool:
    """Whether a memory is a copy of this source that was never in use, of this moment or of one before."""
    same = copy.policy.startswith(ARRIVING) and copy.generation == source.generation
    return same and all(getattr(copy, table) <= getattr(source, table) for table in TABLES)


def _check(target: str | Path, arrived: Head) -> Check:
    """Read again what has arrived."""
    with _opened(target, read_only=True) as new, new.transaction(write=False, anew=True):
        _expect(new, arrived)
        return _proven(new.store.place, check(new))


def _release(target: str | Path, arrived: Head) -> None:
    """Open the copy, from which nobody could answer while the source did."""
    with _opened(target) as new, new.transaction(write=True):
        _expect(new, arrived)
        new.append("entries", [], policy=arrived.policy.rpartition(", ")[2])


def _expect(ledger: Ledger, arrived: Head) -> None:
    if ledger.head != arrived:
        raise BrokenMemoryError(f"{ledger.store.place} does not hold what was copied: nothing may be answered from it")


@contextmanager
def _opened(place: str | Path, read_only: bool = False) -> Iterator[Ledger]:
    """The ledger of a memory, of one that is closed too."""
    ledger = Ledger(store_of(place)(str(place), "inherit", read_only), None, closed=True)
    try:
        yield ledger
    finally:
        ledger.store.close()


def _proven(place: str | None, verdict: Check) -> Check:
    if not verdict.ok:
        fault = verdict.damage[0] if verdict.damage else f"regions of inputs {verdict.conflicts[0].ids} may meet"
        raise BrokenMemoryError(f"expected a memory that keeps its promises, got {place}: {fault}")
    return verdict
