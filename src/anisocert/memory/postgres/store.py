"""A memory in PostgreSQL, for many machines at once.

Whoever writes holds a lock on the table `head` from the first statement to the end of a READ COMMITTED transaction: all
that was stored before is seen, and numbers have no gaps. Acknowledged is what was committed with synchronous_commit on.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.memory._head import COLUMNS, TABLES, Head, Row, Table
from anisocert.memory._kinds import KINDS
from anisocert.memory.errors import BrokenMemoryError, UnavailableError, UnknownOutcomeError
from anisocert.memory.postgres import _schema as postgres_schema

if TYPE_CHECKING:  # psycopg is an extra
    from anisocert.memory.postgres._session import Session, Statement

_BATCH: Final = 64  # rows of 50 KB and more, in one message
# Locks on the head, and then on the other tables. The first one for writing is held by one at a time, and needs the
# right to write, so that nobody else can keep it; readers do not wait for it.
_WRITING: Final = ("SHARE UPDATE EXCLUSIVE", "ROW EXCLUSIVE")
_READING: Final = ("ACCESS SHARE", "ACCESS SHARE")
_SETTLED: Final = ("policy", "lifetime", "probe", "probe_shape", "probe_hash")  # what changes without a row


class PostgresStore:
    """A memory in a schema of its own (store.Store). place: postgresql://...?memory=NAME, NAME being the schema."""

    def __init__(self, place: str | None, policy: str, read_only: bool = False) -> None:
        assert place is not None
        self._process = os.getpid()
        self._session, shown, self._schema = _connected(place)
        self.place: str | None = shown
        self.read_only = read_only
        self._wanted: Head  # the head as it will be when the transaction under way ends
        try:
            with self._session.explained():
                self._prepare(policy)
        except BaseException:
            self._session.close()
            raise

    @staticmethod
    def exists(place: str) -> bool:
        """Whether a memory is there; an error if the database cannot be reached."""
        session, _, schema = _connected(place)
        try:
            with session.explained():
                state = session.execute(postgres_schema.STATE, (schema,)).fetchone()
        finally:
            session.close()
        return bool(state and state[0])

    def _prepare(self, policy: str) -> None:
        look = postgres_schema.STATE, (self._schema,)
        (state,) = self._session.begin(not self.read_only, [look])
        try:
            if self._is_new(state):
                self._session.execute(postgres_schema.ALONE, (self._schema,))
                state = self._session.execute(*look).fetchall()  # another process may have made it meanwhile
            if self._is_new(state):
                for statement in postgres_schema.create(self._schema):
                    self._session.execute(statement)
                columns = ", ".join(("number", *COLUMNS))
                row = (1, *Head.new(policy).to_row())
                self._session.insert(f"INSERT INTO {self._table('head')} ({columns}) VALUES ({_marks(row)})", [row])
        except BaseException:
            self._session.abandon()
            raise
        if not self._session.commit():
            raise UnavailableError(f"the connection to {self.place} was lost: open it again")

    def _is_new(self, state: list[Row]) -> bool:
        relations, comment = state[0] if state else (0, None)
        if relations == 0:
            if self.read_only:
                raise ArgumentError(f"expected a certificate memory, got {self.place}, which does not exist")
            return True
        if comment is None or not comment.startswith(postgres_schema.FORMAT[:-1]):
            raise ArgumentError(f"expected a certificate memory or a new schema, got a schema of others, {self.place}")
        if comment != postgres_schema.FORMAT:
            raise ArgumentError(f"expected an {postgres_schema.FORMAT}, got {self.place}, an {comment}")
        return False

    def close(self) -> None:
        """Release the connection."""
        if self._process == os.getpid():
            self._session.close()

    @contextmanager
    def begin(self, write: bool, generation: str = "", after: int = 0) -> Iterator[tuple[Head, Iterator[Row]]]:
        """A transaction: the head, and the entries after a number, or all if the generation has changed."""
        if self._process != os.getpid():
            raise AnisocertError("a memory cannot be used in a forked process: open it there with Memory.open")
        after = after if generation else 0
        with self._session.explained():
            try:
                before, newest = self._begin(write, self._page("entries", after))
                same = before.generation == generation or after == 0
                yield before, self._pages("entries", newest) if same else self.rows("entries")
                self._put(before)
            except BaseException:
                self._session.abandon()
                raise
            self._end(before)

    def _begin(self, write: bool, *more: Statement) -> tuple[Head, list[Row]]:
        """The head, and what one more statement finds; both once nobody can change the tables any more, only rows."""
        tables = ", ".join(f"ONLY {self._table(table)}" for table in TABLES)
        head, modes = f"ONLY {self._table('head')}", _WRITING if write else _READING
        locks = [(f"LOCK TABLE {names} IN {mode} MODE", ()) for names, mode in zip((head, tables), modes, strict=True)]
        query = f"SELECT {', '.join(COLUMNS)} FROM {head}"
        statements = [*locks, (postgres_schema.OBJECTS, (self._schema,)), (query, ()), *more]
        _, _, objects, heads, *rest = self._session.begin(write, statements)
        postgres_schema.check(self._schema, set(objects))
        self._wanted = Head.of_row(heads[0] if len(heads) == 1 else None)
        return self._wanted, rest[0] if rest else []

    def _put(self, before: Head) -> None:
        """Replace the head, if it is still the one that was read."""
        changed = {
            name: value
            for name, value, old in zip(COLUMNS, self._wanted.to_row(), before.to_row(), strict=True)
            if value != old
        }
        if changed:
            values = ", ".join(f"{name} = %s" for name in changed)
            query = f"UPDATE ONLY {self._table('head')} SET {values} WHERE number = 1 AND seal = %s"
            if self._session.execute(query, (*changed.values(), before.to_row()[-1])).rowcount != 1:
                raise BrokenMemoryError(f"{self.place} was changed by somebody who does not hold its lock")

    def _end(self, before: Head) -> None:
        """Commit. If the answer to that was lost, find out how it ended."""
        wanted = self._wanted
        if self._session.commit() or wanted == before:
            return
        try:
            with self._session.explained():
                stands = self._stands(before, wanted)
        except AnisocertError as error:
            raise UnknownOutcomeError(
                f"the connection to {self.place} was lost in the last moment, and whether anything was stored cannot "
                f"be read yet ({error}). Ask again: what was stored is the answer then"
            ) from error
        if not stands:
            raise UnavailableError(f"the connection to {self.place} was lost, and nothing was stored: ask again")

    def _stands(self, before: Head, wanted: Head) -> bool:
        """Whether a transaction took place. It has ended once its lock, which this takes, is free."""
        try:
            now, _ = self._begin(True)
            if not self._includes(now, before, wanted):
                return False
            # A standby that must have it, too, has it once it has this.
            self._session.execute(f"UPDATE ONLY {self._table('head')} SET number = number")
            if not self._session.commit():
                raise UnavailableError("the connection was lost again")
            return True
        finally:
            self._session.abandon()

    def _includes(self, now: Head, before: Head, wanted: Head) -> bool:
        if now.generation != wanted.generation:
            if now.generation != before.generation:
                raise UnavailableError("somebody has emptied the memory since")
            return False
        grown = [table for table in TABLES if getattr(wanted, table) not in (0, getattr(before, table))]
        for table in grown:
            query = f"SELECT link FROM ONLY {self._table(table)} WHERE number = %s"
            number, link = wanted.last(table)
            if self._session.execute(query, (number,)).fetchall() != [(link,)]:
                return False
        return bool(grown) or all(getattr(now, name) == getattr(wanted, name) for name in _SETTLED)

    def append(self, head: Head, table: Table, rows: Iterable[Row]) -> None:
        """Add rows, and replace the head when the transaction ends."""
        columns, remaining = KINDS[table], iter(rows)
        query = f"INSERT INTO {self._table(table)} ({', '.join(columns)}) VALUES ({_marks(columns)})"
        while batch := list(islice(remaining, _BATCH)):
            self._session.insert(query, batch)
        self._wanted = head

    def rows(self, table: Table, after: int = 0) -> Iterator[Row]:
        """All rows of a table after a number, in order."""
        return self._pages(table, self._session.execute(*self._page(table, after)).fetchall())

    def _page(self, table: Table, after: int) -> Statement:
        """The first rows after a number."""
        where = f"FROM ONLY {self._table(table)} WHERE number > %s ORDER BY number LIMIT {_BATCH}"
        return f"SELECT {', '.join(KINDS[table])} {where}", (after,)

    def _pages(self, table: Table, page: list[Row]) -> Iterator[Row]:
        """Rows, and all that follow them."""
        while page:
            yield from page
            page = self._session.execute(*self._page(table, page[-1][0])).fetchall() if len(page) == _BATCH else []

    def find(self, table: Table, column: str, value: Any) -> list[Row]:
        """Rows with a value in a column that has an index, in order."""
        where = f"FROM ONLY {self._table(table)} WHERE {column} = %s ORDER BY number"
        rows: list[Row] = self._session.execute(f"SELECT {', '.join(KINDS[table])} {where}", (value,)).fetchall()
        return rows

    def regions(self, numbers: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
        """Centre and semi-axes of some entries."""
        query = f"SELECT number, center, axes FROM ONLY {self._table('entries')} WHERE number = ANY (%s)"
        for start in range(0, len(numbers), _BATCH):
            batch = [int(number) for number in numbers[start : start + _BATCH]]
            regions = {number: region for number, *region in self._session.execute(query, (batch,))}
            if regions.keys() != set(batch):
                raise BrokenMemoryError(f"this memory is broken: entries of {self.place} are gone")
            for number in batch:
                center, axes = regions[number]
                yield center, axes

    def columns(self, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        """Some columns of all entries, in order."""
        query = f"SELECT {', '.join(names)} FROM ONLY {self._table('entries')} ORDER BY number"
        rows: list[tuple[Any, ...]] = self._session.execute(query).fetchall()
        return rows

    def reset(self, policy: str) -> None:
        """Drop all rows, and what the memory belongs to; policy and lifetime stay."""
        with self.begin(write=True) as (head, _):
            self._session.execute(f"TRUNCATE TABLE {', '.join(f'ONLY {self._table(table)}' for table in TABLES)}")
            self._wanted = head.emptied(policy)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables with their indexes."""
        tables = ", ".join(f"('{self._table(table)}')" for table in (*TABLES, "head"))
        query = f"SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM (VALUES {tables}) AS tables (name)"
        return int(self._session.execute(query).fetchone()[0])

    def damage(self) -> list[str]:
        """Nothing beyond what `begin` refuses; PostgreSQL's own tool for its files is pg_amcheck."""
        return []

    def _table(self, name: str) -> str:
        return f'"{self._schema}".{name}'


def _marks(values: Collection[Any]) -> str:
    return ", ".join(["%s"] * len(values))


def _connected(place: str) -> tuple[Session, str, str]:
    """A connection, the place as it may be shown, and the schema."""
    from anisocert.memory.postgres._place import Place
    from anisocert.memory.postgres._session import Session

    location = Place.of(place)
    return Session(location), location.shown, location.schema
