"""The durable half of a memory: one SQLite file, in which checking and inserting are one transaction.

Write-ahead logging with full synchronisation: what was acknowledged is on the disk, and a process killed at any moment
leaves no half entry. The file holds raw inputs, so it is created readable by its owner only and deleted content is
overwritten.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from anisocert.certificate import Certificate
from anisocert.errors import AnisocertError, ArgumentError
from anisocert.geometry import Region
from anisocert.memory import chain, entry, kinds, place, schema
from anisocert.memory.errors import BrokenMemoryError
from anisocert.memory.head import COLUMNS, TABLES, Head

_WAIT_SECONDS: Final = 60.0


class Store:
    """A memory file. path: None for a private one that ends with the process. read_only: never made, never changed."""

    def __init__(self, path: Path | None, policy: str | None, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._process = os.getpid()
        self._known_schema = -1
        self._unchanged = False
        name: str | Path = ""  # SQLite's own temporary file: in memory while small, on disk beyond that, never shared
        if path is not None:
            if read_only and not path.exists():
                raise ArgumentError(f"expected a certificate memory, got {path}, which does not exist")
            self._unchanged = read_only and place.still(path)
            if read_only:
                _refuse_foreign_unopened(path)
            place.create(path)
            self._file = place.identity(path, self._unchanged)
            name = place.read_only_uri(path, self._unchanged) if read_only else path
        with _explained(path):
            self._db = sqlite3.connect(
                name, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=read_only
            )
            try:
                self._prepare(policy)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, policy: str | None) -> None:
        self._db.execute("PRAGMA page_size = 16384")  # an entry is tens of kilobytes
        self._db.execute("PRAGMA secure_delete = ON")
        self._db.execute("PRAGMA trusted_schema = OFF")
        if self.path is None:
            self._db.execute("PRAGMA journal_mode = MEMORY")
            self._db.execute("PRAGMA synchronous = OFF")
        else:
            with self._step(write=False):  # of one moment: another process may be making the file just now
                self._refuse_foreign()
        if self.read_only:
            self._db.execute("PRAGMA query_only = ON")
        elif self.path is not None:
            self._db.execute("PRAGMA synchronous = FULL")
        if not self.read_only:
            with self._step(write=True):
                if self._number("PRAGMA application_id") != schema.APPLICATION_ID:
                    schema.create(self._db)
                    self.write(Head.new(policy or "inherit"))
            if self.path is not None:
                self._write_ahead()  # only now: whose file it is must stand in the file itself, and not in its log
        with self.transaction(write=not self.read_only):
            self._settle(policy)

    def _settle(self, policy: str | None) -> None:
        """A policy that differs is taken while nothing is promised, else refused."""
        head = self.head()
        if policy is None or policy == head.policy:
            return
        if head.entries or self.read_only:
            raise ArgumentError(
                f"policy: expected {head.policy!r}, under which the promises in {self.path} were made, got "
                f"{policy!r}; open it without a policy, use a new file, or empty it with reset"
            )
        self.write(replace(head, policy=policy))

    def _refuse_foreign(self) -> None:
        """An error if the file is a database of something else, or of another version."""
        if self._number("PRAGMA application_id") != schema.APPLICATION_ID:
            if self._number("SELECT count(*) FROM sqlite_master"):
                raise ArgumentError(f"expected a certificate memory or a new file, got another database, {self.path}")
            if self.read_only:
                raise ArgumentError(f"expected a certificate memory, got an empty file, {self.path}")
        elif (version := self._number("PRAGMA user_version")) != schema.VERSION:
            raise ArgumentError(
                f"expected a memory of format {schema.VERSION}, got {self.path} of format {version}"
                + (": it did not count submissions, so nobody can say what its promises are worth together. Pass its "
                   "runs through a new one: anisocert memory add RUN --memory NEW" if version == 1 else "")
            )  # fmt: skip

    def _write_ahead(self) -> None:
        # Switching the journal needs the file alone and does not wait for it, so this does.
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """Release the file."""
        if self._process == os.getpid():
            self._db.close()

    @contextmanager
    def transaction(self, write: bool) -> Iterator[None]:
        """All or nothing. write: nobody else writes meanwhile; otherwise everything read is of one moment."""
        if write and self.read_only:
            raise ArgumentError(f"expected a memory opened for writing, got {self.path}, opened read-only")
        with self._step(write):
            found = self._number("PRAGMA schema_version")
            if found != self._known_schema:
                schema.check(self._db)
                self._known_schema = found
            yield

    @contextmanager
    def _step(self, write: bool) -> Iterator[None]:
        if self._process != os.getpid():
            raise AnisocertError("a memory cannot be used in a forked process: open it there with Memory.open")
        if self.path is not None and place.identity(self.path, self._unchanged) != self._file:
            what = "removed, replaced or changed" if self._unchanged else "removed or replaced"
            raise AnisocertError(f"{self.path} was {what} while it was open: open it again")
        with _explained(self.path):
            self._begin(write)
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _begin(self, write: bool) -> None:
        if not write:
            self._db.execute("BEGIN")
            return
        # SQLite asks every 100 ms, and a writer that begins anew at once could keep the others waiting for ever: asking
        # every millisecond, all get their turn.
        deadline = time.monotonic() + _WAIT_SECONDS
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    self._db.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                        raise
                time.sleep(random.uniform(0.0005, 0.0015))
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {int(_WAIT_SECONDS * 1000)}")

    def head(self) -> Head:
        """What the memory belongs to, and what it must hold."""
        return Head.of_row(self._db.execute(f"SELECT {', '.join(COLUMNS)} FROM head").fetchone())

    def write(self, head: Head) -> Head:
        """Put a head in the place of the one before."""
        marks = ", ".join("?" * len(COLUMNS))
        self._db.execute(f"INSERT OR REPLACE INTO head VALUES (1, {marks})", head.to_row())
        return head

    def append(self, head: Head, table: str, rows: Iterable[Sequence[Any]], **changes: Any) -> Head:
        """Add rows, tied to those before them, and change the head as it is now: the new one."""
        count, link = getattr(head, table), getattr(head, f"{table}_link")
        for row in rows:
            count += 1
            link = chain.link(link, (count, *row))
            marks = ", ".join("?" * (len(row) + 2))
            self._db.execute(f"INSERT INTO {table} VALUES ({marks})", (count, *row, link))
        return self.write(replace(head, **{table: count, f"{table}_link": link} | changes))

    def rows(self, table: str, head: Head, after: int = 0, link: bytes | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield all rows of a table after one, of which `link` is known, if they are as they were written."""
        link = chain.first(table, head.generation) if link is None else link
        found = self._db.execute(f"SELECT * FROM {table} WHERE number > ? ORDER BY number", (after,))
        for row in chain.linked(found, link, table):
            kinds.expect(table, kinds.KINDS[table], row)
            after, link = row[0], row[-1]
            yield row
        if (after, link) != (getattr(head, table), getattr(head, f"{table}_link")):
            raise BrokenMemoryError(
                f"this memory is broken: it must hold {getattr(head, table)} {table}, got others, up to {after}"
            )

    def insert(self, head: Head, certificate: Certificate, region: Region) -> Head:
        """Add an entry, the first of which fixes what the memory belongs to; the new head."""
        belongs = {"model_hash": certificate.model_hash, "norm": region.norm, "shape": region.shape}
        return self.append(head, "entries", [entry.to_row(certificate, region, time.time())], **belongs)

    def regions(self, numbers: Sequence[int], head: Head) -> list[Region]:
        """The regions of some entries, as they were promised."""
        found = []
        for number in numbers:
            query = "SELECT center, axes FROM entries WHERE number = ?"
            center, axes = self._db.execute(query, (number,)).fetchone()
            found.append(entry.region(center, axes, head.shape or (), head.norm or 0))
        return found

    def certificate(self, head: Head, column: str, value: int) -> Certificate | None:
        """The entry with a value in a column that no two share: number, or id."""
        query = f"SELECT certificate, theta, center, axes FROM entries WHERE {column} = ?"
        row = self._db.execute(query, (value,)).fetchone()
        if row is None:
            return None
        scalars, theta, center, axes = row
        return entry.certificate(scalars, theta, center, axes, head.shape or ())

    def columns(self, *names: str) -> list[Any]:
        """Some columns of all entries, in order of arrival."""
        rows = self.select(f"SELECT {', '.join(names)} FROM entries ORDER BY number")
        for row in rows:
            kinds.expect("entries", names, row)
        return rows

    def select(self, query: str, *values: Any) -> list[Any]:
        """Rows of a query, with marks for the values."""
        return self._db.execute(query, values).fetchall()

    def reset(self) -> None:
        """Drop all rows, and what the memory belongs to; policy and lifetime stay."""
        with self.transaction(write=True):
            head = self.head()
            for table in TABLES:
                self._db.execute(f"DELETE FROM {table}")
            self.write(Head.new(head.policy, head.lifetime))
        try:
            # The file shrinks, and the log with the last inputs in it is cut off.
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            raise AnisocertError(
                f"{self.path} is empty now, but its old content may still be in {self.path}-wal, because another "
                f"process reads it: close that one and reset again ({error})"
            ) from error

    def copy_to(self, other: Store) -> None:
        """Put all that is here in the place of all that is there."""
        with _explained(self.path):
            self._db.backup(other._db)

    @property
    def nbytes(self) -> int:
        """Bytes of the file with its log, or of what would be one."""
        if self.path is None:
            return self._number("PRAGMA page_count") * self._number("PRAGMA page_size")
        return sum(file.stat().st_size for file in (self.path, place.log(self.path)) if file.exists())

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file; empty where all is well."""
        schema.check(self._db)
        lines = [row[0] for row in self._db.execute("PRAGMA integrity_check")]
        return [] if lines == ["ok"] else lines

    def _number(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])


def _refuse_foreign_unopened(path: Path) -> None:
    """An error if a file is no memory, before SQLite makes a log beside it, which it would do and leave there.

    By SQLite all the same: closing a file that was opened otherwise would release the locks that another connection of
    this process may hold.
    """
    with _explained(path), closing(sqlite3.connect(place.read_only_uri(path, unchanged=True), uri=True)) as db:
        try:
            found = db.execute("PRAGMA application_id").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            return  # a memory is that, without its log, where a process was killed that moved one into the other
    if found != schema.APPLICATION_ID:
        what = "another database" if path.stat().st_size else "an empty file"
        raise ArgumentError(f"expected a certificate memory, got {what}, {path}")


@contextmanager
def _explained(path: Path | None) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        locked = "locked" in str(error)
        wait = f"another process has kept it locked for {_WAIT_SECONDS:.0f} seconds" if locked else str(error)
        raise AnisocertError(f"cannot use the memory {path or 'of this process'}: {wait}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise BrokenMemoryError(f"{path} is no memory, or a damaged one: {error}") from error
