"""Moving a memory to another store, say from a file to a database: all of it, bit by bit, and then only there.

Two copies in use would be two systems, each of which breaks what the other one promises. So the old one is closed for
good once the new one is proven, provided that nobody has changed the old one meanwhile.
"""

from __future__ import annotations

from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.memory._head import TABLES, Head
from anisocert.memory._ledger import MOVED
from anisocert.memory.check import Check
from anisocert.memory.errors import BrokenMemoryError
from anisocert.memory.memory import Memory
from anisocert.shell import shell_quote


def migrate(source: str | Path, target: str | Path) -> Check:
    """Move all promises, submissions and numbers from one memory into an empty one; the check of the new one.

    The generation stays, so that runs know the memory that answered them. Nothing is locked meanwhile; if an error ends
    it, the source is as it was.
    """
    with Memory.open(source) as old:
        _proven(old)
        with Memory.open(target) as new, old._ledger.transaction(write=False):
            copied = old._ledger.head
            if not any(getattr(copied, table) for table in TABLES):
                raise ArgumentError(f"expected a memory that has been used, got {old.place}, which is empty")
            old._ledger.copy_to(new._ledger)
            place = new.place
        found = _check(str(target), copied)
        with old._ledger.transaction(write=True):
            if old._ledger.head != copied:
                raise ArgumentError(
                    f"expected nobody to use {old.place} while it is moved, got changes, which {place} lacks: stop "
                    f"those processes, empty the copy (anisocert memory reset {shell_quote(str(place))}) and begin "
                    "again"
                )
            old._ledger.append("entries", [], policy=MOVED)
    return found


def _check(target: str, copied: Head) -> Check:
    """Read again what has arrived."""
    with Memory.open(target, read_only=True) as new:
        if new._ledger.head != copied:
            raise BrokenMemoryError(f"{new.place} does not hold what was copied: nothing may be answered from it")
        return _proven(new)


def _proven(memory: Memory) -> Check:
    found = memory.check()
    if not found.ok:
        what = found.damage[0] if found.damage else f"regions of inputs {found.conflicts[0].ids} may meet"
        raise BrokenMemoryError(f"expected a memory that keeps its promises, got {memory.place}: {what}")
    return found
