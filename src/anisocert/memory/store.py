"""The durable half of a memory: one SQLite file, in which checking and inserting are one transaction.

Write-ahead logging with full synchronisation: what was acknowledged is on the disk, and a process killed at any moment
leaves no half entry. The file holds raw inputs, so it is created readable by its owner only and deleted content is
overwritten.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anisocert.certificate import Certificate
from anisocert.errors import AnisocertError, ArgumentError
from anisocert.geometry import Region
from anisocert.memory import entry
from anisocert.memory.errors import BrokenMemoryError

_APPLICATION_ID: Final = 0x414E4943  # "ANIC"
_VERSION: Final = 1
_WAIT_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Head:
    """What a memory belongs to; the last three are None until the first entry. generation: changes with every reset."""

    policy: str
    generation: str
    created: float
    model_hash: str | None
    norm: int | None
    shape: tuple[int, ...] | None


class Store:
    """A memory file. path: None for a private one that ends with the process."""

    def __init__(self, path: Path | None, policy: str | None) -> None:
        self.path = path
        self._process = os.getpid()
        if path is not None:
            _create(path)
            self._file = _identity(path)
        with _explained(path):
            # The empty name is SQLite's own temporary file: in memory while small, on disk beyond that, never shared.
            self._db = sqlite3.connect(path or "", timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(policy)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, policy: str | None) -> None:
        self._db.execute("PRAGMA page_size = 16384")  # an entry is tens of kilobytes
        self._db.execute("PRAGMA secure_delete = ON")
        if self.path is None:
            self._db.execute("PRAGMA journal_mode = MEMORY")
            self._db.execute("PRAGMA synchronous = OFF")
        else:
            with self.transaction(write=False):  # of one moment: another process may be making the file just now
                self._refuse_foreign()
            self._write_ahead()
            self._db.execute("PRAGMA synchronous = FULL")
        with self.transaction(write=True):
            if self._number("PRAGMA application_id") != _APPLICATION_ID:
                columns = ", ".join(f"{name} {kind}" for name, kind in entry.COLUMNS.items())
                # Numbers are never used twice, so "after this number" always means "newer".
                self._db.execute(f"CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
                self._db.execute(
                    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), policy TEXT NOT NULL, "
                    "generation TEXT NOT NULL, created REAL NOT NULL, model_hash TEXT, norm INTEGER, shape TEXT)"
                )
                self._db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
                self._new_head(policy or "inherit")
            head = self.head()
            if policy is not None and policy != head.policy:
                if head.model_hash is not None:
                    raise ArgumentError(
                        f"policy: expected {head.policy!r}, under which the promises in {self.path} were made, got "
                        f"{policy!r}; open it without a policy, use a new file, or empty it with reset"
                    )
                self._new_head(policy)

    def _refuse_foreign(self) -> None:
        """An error if the file is a database of something else, or of a later version."""
        if self._number("PRAGMA application_id") != _APPLICATION_ID:
            if self._number("SELECT count(*) FROM sqlite_master"):
                raise ArgumentError(f"expected a certificate memory or a new file, got another database, {self.path}")
        elif (version := self._number("PRAGMA user_version")) != _VERSION:
            raise ArgumentError(f"{self.path} has format {version}, this version of anisocert reads format {_VERSION}")

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
        if self._process != os.getpid():
            raise AnisocertError("a memory cannot be used in a forked process: open it there with Memory.open")
        if self.path is not None and _identity(self.path) != self._file:
            raise AnisocertError(f"{self.path} was removed or replaced while it was open: open it again")
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
        """What the memory belongs to."""
        row = self._db.execute("SELECT policy, generation, created, model_hash, norm, shape FROM head").fetchone()
        policy, generation, created, model_hash, norm, shape = row
        return Head(policy, generation, created, model_hash, norm, None if shape is None else tuple(json.loads(shape)))

    def _new_head(self, policy: str) -> None:
        self._db.execute("DELETE FROM head")
        values = (policy, uuid.uuid4().hex, time.time())
        self._db.execute("INSERT INTO head (one, policy, generation, created) VALUES (1, ?, ?, ?)", values)

    def insert(self, certificate: Certificate, region: Region) -> int:
        """Add an entry, the first of which fixes what the memory belongs to; returns its number."""
        self._db.execute(
            "UPDATE head SET model_hash = ?, norm = ?, shape = ? WHERE model_hash IS NULL",
            (certificate.model_hash, region.norm, json.dumps(region.shape)),
        )
        marks = ", ".join("?" * len(entry.COLUMNS))
        row = entry.to_row(certificate, region, time.time())
        cursor = self._db.execute(f"INSERT INTO entries ({', '.join(entry.COLUMNS)}) VALUES ({marks})", row)
        return int(cursor.lastrowid or 0)

    def after(self, number: int, head: Head) -> Iterator[tuple[int, int, Region]]:
        """Yield (number, class, region) of all entries that came after one."""
        rows = self._db.execute(
            "SELECT number, prediction, center, axes FROM entries WHERE number > ? ORDER BY number", (number,)
        )
        for found, prediction, center, axes in rows:
            yield found, prediction, entry.region(center, axes, head.shape or (), head.norm or 0)

    def regions(self, numbers: Sequence[int], head: Head) -> list[Region]:
        """The regions of some entries, as they were promised."""
        found = []
        for number in numbers:
            query = "SELECT center, axes FROM entries WHERE number = ?"
            center, axes = self._db.execute(query, (number,)).fetchone()
            found.append(entry.region(center, axes, head.shape or (), head.norm or 0))
        return found

    def certificates(self, head: Head, where: str = "", *values: int) -> Iterator[tuple[Certificate, float]]:
        """Yield (certificate, time) in order of arrival. where: a condition on columns, with marks for the values."""
        wanted = f"WHERE {where}" if where else ""
        query = f"SELECT time, certificate, theta, center, axes FROM entries {wanted} ORDER BY number"
        for moment, scalars, theta, center, axes in self._db.execute(query, values):
            yield entry.certificate(scalars, theta, center, axes, head.shape or ()), moment

    def select(self, query: str, *values: Any) -> list[Any]:
        """Rows of a query, with marks for the values."""
        return self._db.execute(query, values).fetchall()

    def change(self, statement: str, *values: Any) -> None:
        """Execute a statement, with marks for the values, inside a transaction."""
        self._db.execute(statement, values)

    def reset(self, policy: str, also: Callable[[], None] = lambda: None) -> None:
        """Drop all entries and what the memory belongs to. also: done in the same transaction."""
        with self.transaction(write=True):
            self._db.execute("DELETE FROM entries")
            self._new_head(policy)
            also()
        try:
            # The file shrinks, and the log with the last inputs in it is cut off.
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            raise AnisocertError(
                f"{self.path} is empty now, but its old content may still be in {self.path}-wal, because another "
                f"process reads it: close that one and reset again ({error})"
            ) from error

    @property
    def nbytes(self) -> int:
        """Bytes of the file with its log, or of what would be one."""
        if self.path is None:
            return self._number("PRAGMA page_count") * self._number("PRAGMA page_size")
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file; empty where all is well."""
        with _explained(self.path):
            lines = [row[0] for row in self._db.execute("PRAGMA integrity_check")]
        return [] if lines == ["ok"] else lines

    def _number(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])


def _create(path: Path) -> None:
    """An empty file that only its owner may read, unless there is one."""
    if path.exists():
        return
    # Never by opening the path itself: closing it again would release the locks that another connection of this process
    # may hold by then.
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent)
    except OSError as error:  # which names the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from error
    os.close(handle)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names at this moment."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _explained(path: Path | None) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        locked = "locked" in str(error)
        wait = f"another process has kept it locked for {_WAIT_SECONDS:.0f} seconds" if locked else str(error)
        raise AnisocertError(f"cannot use the memory {path or 'of this process'}: {wait}") from error
    except sqlite3.DatabaseError as error:
        raise BrokenMemoryError(f"{path} is no memory, or a damaged one: {error}") from error
