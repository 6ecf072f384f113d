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
from anisocert.memory import chain, entry
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

    def __init__(self, path: Path | None, policy: str | None, read_only: bool = False) -> None:
        self.store = Store(path, policy, read_only)
        self._lock = threading.RLock()
        self._index = Index((), 2)
        self._link = b""  # of the newest entry in the index
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
                    known = len(self._index), self._link
                    yield
            except BaseException:
                # What this step has put into the index was not stored after all.
                if known is not None:
                    self._index.truncate(known[0])
                    self._link = known[1]
                raise

    def reset(self) -> None:
        """Drop all promises."""
        with self._lock:
            self.store.reset()

    def _read_new(self) -> None:
        count, head = len(self._index), self.head
        link = self._link if count else chain.first("entries", head.generation)
        for number, *values, newest in self.store.rows("entries", head, count, link):
            row = dict(zip(entry.COLUMNS, values, strict=True))
            region = entry.region(row["center"], row["axes"], head.shape or (), head.norm or 0)
            self._index_one(number, row["prediction"], region, newest)

    def _index_one(self, number: int, prediction: int, region: Region, link: bytes) -> None:
        if not len(self._index):
            self._index = Index(region.shape, region.norm)
        self._index.append(number, prediction, region)
        self._link = link

    @property
    def index(self) -> Index:
        """All stored promises, with semi-axes rounded up."""
        return self._index

    def add(self, promise: Certificate, region: Region) -> None:
        """Store a promise; it counts when the transaction ends."""
        self.head = self.store.insert(self.head, promise, region)
        self._index_one(self.head.entries, promise.prediction, region, self.head.entries_link)

    def find(self, id_: int) -> Certificate | None:
        """The promise to the input with that id."""
        found = self.store.certificate(self.head, "id", id_)
        if found is not None and found.id != id_:
            raise BrokenMemoryError(f"this memory is broken: asked for input {id_} it gives input {found.id}")
        return found

    def near(self, point: Floats, region: Region | None = None, own: int | None = None) -> Numbers:
        """Rows that may contain the point, or meet a region around it unless they are of class `own`."""
        return self._index.near(point, 0.0 if region is None else region.enclosing_radius, own)

    def covering(self, point: Floats, near: Numbers) -> Certificate | None:
        """The promise whose region contains a point and leaves the largest copy around it; that copy is its region.

        A point on the boundary is covered, and has no copy: then the region is None.

        Raises:
            BrokenMemoryError: the point lies in regions of two classes.
        """
        found = self._homes(point, near)
        if not found:
            return None
        sizes = [-np.inf if copy is None else float(np.log(copy.axes).mean()) for _, copy in found]
        best, copy = found[int(np.argmax(sizes))]
        chosen = self.promise(best)
        for row, _ in found:
            if self._index.classes(np.array([row]))[0] != chosen.prediction:
                other = self.promise(row)
                raise BrokenMemoryError(
                    f"this memory is broken: an input lies in the regions of input {chosen.id}, class "
                    f"{chosen.prediction}, and of input {other.id}, class {other.prediction}. Nothing may be answered "
                    "from it; Memory.check and `anisocert memory check` name all such pairs"
                )
        return replace(chosen, region=copy, x=point)

    def all_covering(self, point: Floats) -> list[Certificate]:
        """Every promise whose region contains a point, with the copy of it around the point, or None on the border."""
        homes = self._homes(point, self.near(point))
        return [replace(self.promise(row), region=copy, x=point) for row, copy in homes]

    def _homes(self, point: Floats, near: Numbers) -> list[tuple[np.intp, Region | None]]:
        rows = self._index.containing(point, near)
        regions = zip(rows, self.exact(rows), strict=True)
        return [(row, _copy(region, point)) for row, region in regions if inside(region, point)]

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
        found = self.store.certificate(self.head, "number", self._index.entries(np.array([row]))[0])
        assert found is not None
        return found


def _copy(region: Region, point: Floats) -> Region | None:
    try:
        return inner_copy(region, point)
    except ArgumentError:
        return None
