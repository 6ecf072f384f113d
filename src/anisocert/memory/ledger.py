"""The promises in a store, and this process' index of them, which inside a transaction is always up to date."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from anisocert.certificate import Certificate
from anisocert.errors import ArgumentError
from anisocert.geometry import NoRoomError, Region, Regions, disjoint, inner_copy, shrink_outside
from anisocert.memory import spending
from anisocert.memory.errors import BrokenMemoryError
from anisocert.memory.float_rows import Floats
from anisocert.memory.index import Index
from anisocert.memory.inside import inside
from anisocert.memory.shadow import Numbers
from anisocert.memory.store import Store

Prefer = Literal["volume", "ball"]

# So many stored regions are read as they were promised; if a newcomer meets more, it makes room for the slightly larger
# ones of the index (by 1.2e-7 at most), which are in memory anyway.
_MOST_EXACT: Final = 2048


class Ledger:
    """Promised regions, of one model, one norm and one shape; those of different classes are disjoint.

    Everything but `transaction` is asked inside one.
    """

    def __init__(self, path: Path | None, policy: str | None) -> None:
        self.store = Store(path, policy)
        self._lock = threading.RLock()
        self._index = Index((), 2)
        # Reading a large file takes seconds: now, and not when others wait for the first transaction to end.
        with self.store.transaction(write=False):
            self.head = self.store.head()
            self._read_new()

    @contextmanager
    def transaction(self, write: bool, anew: bool = False) -> Iterator[None]:
        """One atomic step, in which this process knows everything that others have stored.

        anew: read all of it again, trusting nothing that this process has in memory.
        """
        with self._lock:
            known = None
            try:
                with self.store.transaction(write):
                    head, before = self.store.head(), self.head
                    if head.policy != before.policy:
                        raise ArgumentError(f"{self.store.path} now has policy {head.policy!r}: open it again")
                    if anew or head.generation != before.generation:
                        self._index.truncate(0)
                    self.head = head
                    self._read_new()
                    known = len(self._index)
                    yield
            except BaseException:
                # What this step has put into the index was not stored after all.
                if known is not None:
                    self._index.truncate(known)
                raise

    def reset(self) -> None:
        """Drop all promises."""
        with self._lock:
            self.store.reset(self.head.policy, lambda: spending.forget(self.store))

    def _read_new(self) -> None:
        for number, prediction, region in self.store.after(self._index.last, self.head):
            self._index_one(number, prediction, region)

    def _index_one(self, number: int, prediction: int, region: Region) -> None:
        if not len(self._index):
            self._index = Index(region.shape, region.norm)
        self._index.append(number, prediction, region)

    @property
    def index(self) -> Index:
        """All stored promises, with semi-axes rounded up."""
        return self._index

    def add(self, promise: Certificate, region: Region) -> None:
        """Store a promise; it counts when the transaction ends."""
        number = self.store.insert(promise, region)
        if self.head.model_hash is None:
            self.head = self.store.head()
        self._index_one(number, promise.prediction, region)

    def find(self, id_: int) -> Certificate | None:
        """The promise to the input with that id."""
        return next((promise for promise, _ in self.store.certificates(self.head, "id = ?", id_)), None)

    def near(self, point: Floats, region: Region | None = None, own: int | None = None) -> Numbers:
        """Rows that may contain the point, or meet a region around it unless they are of class `own`."""
        return self._index.near(point, 0.0 if region is None else region.enclosing_radius, own)

    def covering(self, point: Floats, near: Numbers) -> Certificate | None:
        """The promise whose region contains a point and leaves the largest copy around it; that copy is its region.

        A point on the boundary is covered, and has no copy: then the region is None.

        Raises:
            BrokenMemoryError: the point lies in regions of two classes.
        """
        rows = self._index.containing(point, near)
        found = [(row, region) for row, region in zip(rows, self.exact(rows), strict=True) if inside(region, point)]
        if not found:
            return None
        copies = [_copy(region, point) for _, region in found]
        sizes = [-np.inf if copy is None else float(np.log(copy.axes).mean()) for copy in copies]
        best = int(np.argmax(sizes))
        chosen = self.promise(found[best][0])
        for row, _ in found:
            if self._index.classes(row) != chosen.prediction:
                other = self.promise(row)
                raise BrokenMemoryError(
                    f"this memory is broken: an input lies in the regions of input {chosen.id}, class "
                    f"{chosen.prediction}, and of input {other.id}, class {other.prediction}. Nothing may be answered "
                    "from it; Memory.check and `anisocert memory check` name all such pairs"
                )
        return replace(chosen, region=copies[best], x=point)

    def fit(self, region: Region, own: int, near: Numbers, shrinks: bool, prefer: Prefer) -> Region | None:
        """The largest region inside this one that is disjoint from all of other classes; None if there is no room.

        shrinks: otherwise it is this region or none.
        """
        rows = self._index.meeting(region, own, near)
        if not len(rows):
            return region
        obstacles = self._index.regions(rows)
        if len(rows) <= _MOST_EXACT:
            exact = self.exact(rows)
            obstacles = Regions(
                np.stack([one.center for one in exact]), np.stack([one.axes for one in exact]), region.norm
            )
        if not shrinks:
            return region if disjoint(obstacles, region).all() else None
        try:
            return shrink_outside(obstacles, region, prefer=prefer)
        except NoRoomError:
            return None

    def exact(self, rows: Numbers) -> list[Region]:
        """The regions of some rows as they were promised."""
        return self.store.regions(self._index.entries(rows), self.head)

    def promise(self, row: np.intp) -> Certificate:
        """What was promised in a row, with its evidence."""
        number = self._index.entries(np.array([row]))[0]
        return next(promise for promise, _ in self.store.certificates(self.head, "number = ?", number))


def _copy(region: Region, point: Floats) -> Region | None:
    try:
        return inner_copy(region, point)
    except ArgumentError:
        return None
