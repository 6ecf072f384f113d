"""Proof that all promises in a memory can be kept at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anisocert.geometry import disjoint
from anisocert.memory import spending
from anisocert.memory.ledger import Ledger


@dataclass(frozen=True)
class Conflict:
    """Two stored regions of different classes that are not proven disjoint. ids: of the inputs."""

    ids: tuple[int, int]
    classes: tuple[int, int]


@dataclass(frozen=True)
class Check:
    """entries: how many; compared: pairs that needed more than a look at their coordinates.

    damage: of the file, or of its account of alpha.
    """

    entries: int
    compared: int
    conflicts: tuple[Conflict, ...]
    damage: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every pair is proven disjoint and the file is whole."""
        return not self.conflicts and not self.damage


def check(ledger: Ledger) -> Check:
    """Ask every stored region against all that came before it; the numbers are those of the store."""
    index, compared, conflicts = ledger.index, 0, []
    for row in range(len(index)):
        me = np.array([row])
        region, mine = ledger.exact(me)[0], int(index.classes(me)[0])
        near = ledger.near(region.center, region, mine)
        near = near[near < row]
        compared += int((index.classes(near) != mine).sum())
        rows = index.meeting(region, mine, near)
        for other, earlier in zip(rows, ledger.exact(rows), strict=True):
            # The index holds larger regions than were promised: now those that were, in both orders.
            if not (disjoint(earlier, region) and disjoint(region, earlier)):
                first, second = ledger.promise(other), ledger.promise(me[0])
                conflicts.append(Conflict((first.id, second.id), (first.prediction, second.prediction)))
    return Check(len(index), compared, tuple(conflicts), (*ledger.store.damage(), *spending.overspent(ledger.store)))
