"""A memory in an SQLite file, where checking and inserting are one transaction.

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.memory._head import COLUMNS, TABLES, Head, Row, Table
from anisocert.memory.sqlite import _file as sqlite_file
from anisocert.memory.sqlite import _forks as forks
from anisocert.memory.sqlite import _schema as sqlite_schema


class SqliteStore:
    """A memory file (store.Store). place: None for a private one that ends with the process."""

    def __init__(self, place: str | None, policy: str, read_only: bool = False) -> None:
        path = None if place is None else sqlite_file.file_at(place)
        self.place, self.read_only = None if path is None else str(path), read_only
        self._path = path
        self._process = os.getpid()
        self._known_schema: int | None = None  # a file may have any number, -1 too
        self._unchanged = False
        self._log: tuple[int | bool, ...] | None = None
        name: str | Path = ""  # SQLite's own temporary file: in memory while small, on disk beyond that, never shared
        if path is not None:
            if read_only and not path.exists():
                raise ArgumentError(f"expected a certificate memory, got {path}, which does not exist")
            forks.refuse_inherited(path)
            sqlite_file.refuse_hostile_journal(path)
            before = sqlite_file.identity(path, True)  # a log that comes after that is a change
            self._unchanged = read_only and sqlite_file.still(path)
            if read_only:
                sqlite_file.refuse_foreign(path)
            sqlite_file.create(path)
            sqlite_file.refuse_second_name(path)
            sqlite_file.refuse_mounted(path)
            self._file = before if self._unchanged else sqlite_file.identity(path, False)
            name = sqlite_file.read_only_uri(path, self._unchanged) if read_only else path
        with sqlite_file.explained(path):
            self._db = sqlite3.connect(
                name, timeout=sqlite_file.WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=read_only,
                factory=forks.Connection,
            )  # fmt: skip
            if path is not None:
                forks.remember(self._db, path)
            try:
                self._prepare(policy)
            except BaseException:
                self._db.close()
                raise

    @staticmethod
    def exists(place: str) -> bool:
        """Whether a file is there; an error if none can be made there."""
        path = sqlite_file.file_at(place)
        sqlite_file.expect_folder(path)
        return path.exists()

    def _prepare(self, policy: str) -> None:
        for setting in ("page_size = 16384", "secure_delete = ON", "trusted_schema = OFF"):  # entries of 10 KB and more
            self._db.execute(f"PRAGMA {setting}")
        if self._path is None:
            self._db.execute("PRAGMA journal_mode = MEMORY")
            self._db.execute("PRAGMA synchronous = OFF")
        else:
            with self._step(write=False):  # a consistent view: another process may be making the file
                self._refuse_foreign()
        if self.read_only:
            self._db.execute("PRAGMA query_only = ON")
        elif self._path is not None:
            self._db.execute("PRAGMA synchronous = FULL")
        if not self.read_only:
            with self._step(write=True):
                if self._pragma("application_id") != sqlite_schema.APPLICATION_ID:
                    sqlite_schema.create(self._db)
                    self._put(Head.new(policy))
            if self._path is not None:
                self._write_ahead()  # only now: whose file it is must be in the file itself, not in its log

    def _refuse_foreign(self) -> None:
        """An error if the file is some other database, or of another version."""
        if self._pragma("application_id") != sqlite_schema.APPLICATION_ID:
            if self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                raise ArgumentError(f"expected a certificate memory or a new file, got another database, {self.place}")
            if self.read_only:
                raise ArgumentError(f"expected a certificate memory, got an empty file, {self.place}")
        elif (version := self._pragma("user_version")) != sqlite_schema.VERSION:
            raise ArgumentError(
                f"expected a memory of format {sqlite_schema.VERSION}, got {self.place} of format {version}"
                + (": it did not count submissions, so what its promises are worth together is unknown. Pass its "
                   "runs through a new one: anisocert memory add RUN --memory NEW" if version == 1 else "")
            )  # fmt: skip

    def _write_ahead(self) -> None:
        # Switching the journal needs exclusive access and does not wait for it, so this does.
        deadline = time.monotonic() + sqlite_file.WAIT_SECONDS
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
            self._log = None  # SQLite removes it

    @contextmanager
    def begin(self, write: bool, generation: str = "", after: int = 0) -> Iterator[tuple[Head, Iterator[Row]]]:
        """A transaction: the head, and the entries after a number, or all if the generation has changed."""
        with self._step(write):
            schema = self._pragma("schema_version")
            if schema != self._known_schema:
                sqlite_schema.check(self._db)
                self._known_schema = schema
            head = Head.of_row(self._db.execute(f"SELECT {', '.join(COLUMNS)} FROM head").fetchone())
            if self._path is not None and self._log is None:  # which SQLite keeps from here until it is closed
                self._log = sqlite_file.identity(sqlite_file.log(self._path), False)
            yield head, self.rows("entries", after if head.generation == generation else 0)

    @contextmanager
    def _step(self, write: bool) -> Iterator[None]:
        if self._process != os.getpid():
            raise AnisocertError(forks.FORKED)
        self._expect_same_file()
        with sqlite_file.explained(self._path):
            self._begin(write)
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        self._expect_same_file()  # or what is about to be acknowledged is in a file that nobody will find

    def _expect_same_file(self) -> None:
        if self._path is None:
            return
        if sqlite_file.identity(self._path, self._unchanged) != self._file:
            change = "removed, replaced or changed" if self._unchanged else "removed or replaced"
            raise AnisocertError(
                f"{self.place} was {change} while it was open: put it back, or open what is there now, and what that "
                "lacks is forgotten"
            )
        if self._log is not None and sqlite_file.identity(log := sqlite_file.log(self._path), False) != self._log:
            raise AnisocertError(
                f"{log} was removed or replaced while the memory was open, with the newest promises in it: end this "
                "process in order, not by force, so that it writes them into the memory, and open that again; if a "
                "backup was copied over the memory, copy it there once more then, as it is mixed with them"
            )

    def _begin(self, write: bool) -> None:
        if not write:
            self._db.execute("BEGIN")
            return
        # SQLite retries every 100 ms, and a writer that begins anew at once could keep the others waiting forever: with
        # a retry every millisecond, all get their turn.
        deadline = time.monotonic() + sqlite_file.WAIT_SECONDS
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
            self._db.execute(f"PRAGMA busy_timeout = {int(sqlite_file.WAIT_SECONDS * 1000)}")

    def append(self, head: Head, table: Table, rows: Iterable[Row]) -> None:
        """Add rows, and replace the head."""
        for row in rows:
            self._db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        self._put(head)

    def _put(self, head: Head) -> None:
        marks = ", ".join("?" * len(COLUMNS))
        self._db.execute(f"INSERT OR REPLACE INTO head VALUES (1, {marks})", head.to_row())

    def rows(self, table: Table, after: int = 0) -> Iterator[Row]:
        """All rows of a table after a number, in order."""
        query = f"SELECT * FROM {table} WHERE number > ? ORDER BY number"
        for row in self._db.execute(query, (after,)):  # noqa: UP028  # which would close the cursor, perhaps too late
            yield row

    def find(self, table: Table, column: str, value: Any) -> list[Row]:
        """Rows with a value in a column that has an index, in order."""
        return self._db.execute(f"SELECT * FROM {table} WHERE {column} = ? ORDER BY number", (value,)).fetchall()

    def regions(self, numbers: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
        """Centre and semi-axes of some entries."""
        for number in numbers:
            yield self._db.execute("SELECT center, axes FROM entries WHERE number = ?", (number,)).fetchone()

    def columns(self, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        """Some columns of all entries, in order."""
        return self._db.execute(f"SELECT {', '.join(names)} FROM entries ORDER BY number")

    def reset(self, policy: str) -> None:
        """Drop all rows, and what the memory belongs to; policy and lifetime stay."""
        with self.begin(write=True) as (head, _):
            for table in TABLES:
                self._db.execute(f"DELETE FROM {table}")
            self._put(head.emptied(policy))
        try:
            # The file shrinks, and the log with the last inputs in it is truncated.
            self._db.execute("VACUUM")
            busy, *_ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:  # which SQLite tells in a row, not by an error
                raise sqlite3.OperationalError("another process uses it")
        except sqlite3.OperationalError as error:
            raise AnisocertError(
                f"{self.place} is empty now, but its old content may still be in it, or in its log {self.place}-wal: "
                f"{error}; reset again once that is over"
            ) from error

    @property
    def nbytes(self) -> int:
        """Bytes of the file with its log, or of what would be one."""
        if self._path is None:
            return self._pragma("page_count") * self._pragma("page_size")
        return sum(file.stat().st_size for file in (self._path, sqlite_file.log(self._path)) if file.exists())

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file; empty if all is well."""
        sqlite_schema.check(self._db)
        lines = [row[0] for row in self._db.execute("PRAGMA integrity_check")]
        return [] if lines == ["ok"] else lines

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
