"""The promises in a store, and this process' index of them, which inside a transaction is always up to date.

This file knows what a row means, and checks that it is the one that was written; the store only keeps it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import time
from typing import Any, Final

import numpy as np

from anisocert.certificate import Certificate
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.memory import _chain as chain
from anisocert.memory import _entry as entry
from anisocert.memory import _kinds as kinds
from anisocert.memory._head import TABLES, Head, Row, Table
from anisocert.memory._index import Index
from anisocert.memory._shadow import Numbers
from anisocert.memory.errors import BrokenMemoryError, ChangedError
from anisocert.memory.store import Store

MOVED: Final = "moved"  # in place of a policy, with a copy's token: nobody may answer from here any more
ARRIVING: Final = "arriving"  # with a token, before the policy of a copy: nobody may answer from here yet
_BATCH: Final = 64  # entries that `promises` reads at a time


class Ledger:
    """Promised regions, of one model, one norm and one shape; those of different classes are disjoint.

    Everything except `transaction` and `reset` is called inside a transaction.
    """

    def __init__(self, store: Store, policy: str | None, closed: bool = False) -> None:
        """closed: also open a memory that nobody may answer from."""
        self.store = store
        self._lock = threading.RLock()
        self._index = Index((), 2)
        self._link = b""  # of the newest entry in the index
        try:
            # Reading a large memory takes seconds: do it now, not while others wait for the first transaction to end.
            with store.begin(write=False) as (self.head, entries):
                if not closed and (why := _why_closed(self.head)) is not None:
                    raise ArgumentError(f"expected a memory in use, got {store.place}, {why}")
                self._read(entries)
            if policy not in (None, self.head.policy):
                with self.transaction(write=not store.read_only):
                    self._take(policy)
        except BaseException:
            store.close()
            raise

    def _take(self, policy: str | None) -> None:
        """Change the policy, if nothing is promised under the present one."""
        if self.head.entries or self.store.read_only:
            raise ArgumentError(
                f"policy: expected {self.head.policy!r}, under which the promises in {self.store.place} were made, got "
                f"{policy!r}; open it without a policy, use a new file, or empty it with reset"
            )
        self.append("entries", [], policy=policy)

    @contextmanager
    def transaction(self, write: bool, anew: bool = False) -> Iterator[None]:
        """One atomic step, in which this process knows everything that others have stored.

        anew: read all of it again, trusting nothing that this process has in memory.
        """
        with self._lock:
            self._expect_writable(write)
            snapshot = None
            try:
                generation = "" if anew else self.head.generation
                with self.store.begin(write, generation, len(self._index)) as (head, entries):
                    if head.policy != self.head.policy:
                        why = _why_closed(head) or f"which now has policy {head.policy!r}: open it again"
                        raise ChangedError(f"expected the memory as it was opened, got {self.store.place}, {why}")
                    self._expect_all_known(head)
                    if head.generation != generation:
                        self._index = Index((), 2)
                    self.head = head
                    self._read(entries)
                    snapshot = len(self._index), self._link, head
                    yield
            except BaseException:
                # What this step put into the index and the head was not stored after all.
                if snapshot is not None:
                    self._index.truncate(snapshot[0])
                    _, self._link, self.head = snapshot
                raise

    def _expect_all_known(self, head: Head) -> None:
        """An error if what this process has seen is gone: a number would be given twice, an attempt not be counted.

        Entries need no look of their own: each has a submission, and new ones are tied to those in the index.
        """
        if head.generation != self.head.generation:
            return
        table: Table
        for table in ("submissions", "numbers"):
            (seen, link), stored = self.head.last(table), head.last(table)
            if stored[0] > seen > 0:
                stored = next(((seen, row["link"]) for row in self.find(table, "number", seen)), (0, b""))
            if seen > 0 and stored != (seen, link):
                raise BrokenMemoryError(
                    f"this memory is broken: expected the {seen} {table} that this process has seen in it, got "
                    f"{stored[0] if stored[0] < seen else 'others'}: an older state is in its place, say a restored "
                    "backup, and what came after that is forgotten (docs/postgresql.md, Backup and restore). A process "
                    "that is started again takes it as it is"
                )

    def reset(self) -> None:
        """Drop all promises."""
        with self._lock:
            self._expect_writable(True)
            self.store.reset(self.head.policy)

    def _expect_writable(self, write: bool) -> None:
        if write and self.store.read_only:
            raise ArgumentError(f"expected a memory opened for writing, got {self.store.place}, opened read-only")

    def _read(self, entries: Iterable[Row]) -> None:
        """Add to the index the entries that came after those in it."""
        count, head = len(self._index), self.head
        link = self._link if count else chain.first("entries", head.generation)
        for number, *values, newest in _whole(entries, "entries", head, count, link):
            row = dict(zip(entry.COLUMNS, values, strict=True))
            self._index_one(number, row["prediction"], self._region(row["center"], row["axes"]), newest)

    def _index_one(self, number: int, prediction: int, region: Region, link: bytes) -> None:
        if not len(self._index):
            self._index = Index(region.shape, region.norm)
        self._index.append(number, prediction, region)
        self._link = link

    def _region(self, center: bytes, axes: bytes) -> Region:
        return entry.region(center, axes, self.head.shape or (), self.head.norm or 0)

    @property
    def index(self) -> Index:
        """All stored promises, with semi-axes rounded up."""
        return self._index

    def append(self, table: Table, values: Iterable[Sequence[Any]], **changes: Any) -> None:
        """Add rows to a table, and change the head; both take effect when the transaction ends."""
        self.head, rows = self.head.extended(table, values, **changes)
        self.store.append(self.head, table, rows)

    def add(self, promise: Certificate, region: Region) -> None:
        """Store a promise; the first one fixes what the memory belongs to."""
        belongs = {"model_hash": promise.model_hash, "norm": region.norm, "shape": region.shape}
        self.append("entries", [entry.to_row(promise, region, time())], **belongs)
        self._index_one(self.head.entries, promise.prediction, region, self.head.entries_link)

    def rows(self, table: Table) -> Iterator[Row]:
        """Yield all rows of a table, if they are as written."""
        return _whole(self.store.rows(table), table, self.head, 0, chain.first(table, self.head.generation))

    def find(self, table: Table, column: str, value: Any) -> list[dict[str, Any]]:
        """Rows with a value in a column of `keys` (_kinds.py), by column."""
        assert column in kinds.keys(table), (table, column)
        rows = self.store.find(table, column, value)
        for row in rows:
            kinds.expect(table, kinds.KINDS[table], row)
        return [dict(zip(kinds.KINDS[table], row, strict=True)) for row in rows]

    def columns(self, *names: str) -> list[tuple[Any, ...]]:
        """Some columns of all entries, in order of arrival."""
        rows = list(self.store.columns(names))
        for row in rows:
            kinds.expect("entries", names, row)
        return rows

    def exact(self, rows: Numbers) -> list[Region]:
        """The regions of some rows of the index as they were promised."""
        return [self._region(*region) for region in self.store.regions(self._index.entries(rows))]

    def promise(self, row: np.intp) -> Certificate:
        """What was promised in a row of the index, with its evidence."""
        (promise,) = self._promises("number", self._index.entries(np.array([row]))[0])
        return promise

    def promise_to(self, id_: int) -> Certificate | None:
        """The promise to the input with that id."""
        for promise in self._promises("id", id_):
            if promise.id != id_:
                raise BrokenMemoryError(f"this memory is broken: asked for input {id_} it gives input {promise.id}")
            return promise
        return None

    def promises(self) -> Iterator[Certificate]:
        """Yield all promises in order of arrival, some in each transaction: others may write meanwhile."""
        done = 0
        while True:
            with self.transaction(write=False):
                promises = [self.promise(row) for row in np.arange(done, min(done + _BATCH, len(self.index)))]
            if not promises:
                return
            done += len(promises)
            yield from promises

    def _promises(self, column: str, value: int) -> list[Certificate]:
        shape = self.head.shape or ()
        return [
            entry.certificate(row["certificate"], row["theta"], row["center"], row["axes"], shape)
            for row in self.find("entries", column, value)
        ]

    def copy_to(self, other: Ledger, **changes: Any) -> None:
        """Put all rows into another, empty ledger, and the head with some changes; all or nothing."""
        with other.store.begin(write=True) as (head, _):
            if head.policy != other.head.policy or any(getattr(head, table) for table in TABLES):
                raise ArgumentError(f"expected an empty memory to copy into, got {other.store.place}, which is in use")
            for table in TABLES:
                other.store.append(replace(self.head, **changes), table, self.rows(table))


def _why_closed(head: Head) -> str | None:
    """Why nobody may answer from a memory; None if it is in use."""
    if head.policy.startswith(MOVED):
        return "whose promises were moved to another place (anisocert memory migrate): open them there"
    if head.policy.startswith(ARRIVING):
        return "a copy that anisocert memory migrate has not completed: repeat that command"
    return None


def _whole(rows: Iterable[Row], table: Table, head: Head, after: int, link: bytes) -> Iterator[Row]:
    """Yield the rows after one whose `link` is known, up to the last, if they are as written."""
    for row in chain.linked(rows, link, table):
        kinds.expect(table, kinds.KINDS[table], row)
        after, link = row[0], row[-1]
        yield row
    if (after, link) != head.last(table):
        raise BrokenMemoryError(
            f"this memory is broken: it must hold {getattr(head, table)} {table}, got others, up to {after}"
        )
