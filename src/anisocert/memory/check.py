"""Proof that all promises in a memory can be kept at once, and that each follows from its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anisocert.geometry import disjoint
from anisocert.memory import _entry as entry
from anisocert.memory import _spending as spending
from anisocert.memory._evidence import wrong_with
from anisocert.memory._ledger import Ledger
from anisocert.memory.errors import BrokenMemoryError
from anisocert.memory.policy import KEPT, SHRUNK


@dataclass(frozen=True)
class Conflict:
    """Two stored regions of different classes that are not proven disjoint. ids: of the inputs."""

    ids: tuple[int, int]
    classes: tuple[int, int]


@dataclass(frozen=True)
class Check:
    """entries: how many; compared: pairs that needed more than a comparison of their coordinates.

    damage: of the file, of an entry that does not follow from its evidence, or of the account of alpha.
    """

    entries: int
    compared: int
    conflicts: tuple[Conflict, ...]
    damage: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every pair is proven disjoint, every entry follows from its evidence and the file is whole."""
        return not self.conflicts and not self.damage


def check(ledger: Ledger) -> Check:
    """Compare every stored region with all that came before it, on the numbers of the store."""
    index, compared, conflicts = ledger.index, 0, []
    damage = [*ledger.store.damage(), *_problems(ledger)]
    for row in range(len(index)):
        me = np.array([row])
        region, own = ledger.exact(me)[0], int(index.classes(me)[0])
        near = index.near(region.center, region.enclosing_radius, own)
        near = near[near < row]
        compared += int((index.classes(near) != own).sum())
        rows = index.meeting(region, own, near)
        for other, earlier in zip(rows, ledger.exact(rows), strict=True):
            # The index holds slightly larger regions: now the promised ones, in both orders.
            if not (disjoint(earlier, region) and disjoint(region, earlier)):
                first, second = ledger.promise(other), ledger.promise(me[0])
                conflicts.append(Conflict((first.id, second.id), (first.prediction, second.prediction)))
    return Check(len(index), compared, tuple(conflicts), tuple(damage))


def _problems(ledger: Ledger) -> Iterator[str]:
    """What is wrong with entries, one by one, and with the account of all submissions."""
    head, accounts = ledger.head, []
    for number, *values, _ in ledger.rows("entries"):
        row = dict(zip(entry.COLUMNS, values, strict=True))
        try:
            promise = entry.promise(row, head.shape or ())
        except BrokenMemoryError as error:
            yield f"entry {number}: {error}"
            continue
        if (promise.model_hash, promise.norm) != (head.model_hash, head.norm):
            yield f"entry {number}: has a different model or norm than the memory"
        if promise.note not in (KEPT, SHRUNK):
            yield f"entry {number}: has the note {promise.note!r}"
        if (fault := wrong_with(promise)) is not None:
            yield f"entry {number}, input {promise.id}: {fault}"
            continue
        accounts.append(spending.Account.of(promise))
    yield from spending.problems(ledger, accounts)
