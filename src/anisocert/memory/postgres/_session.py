"""A connection to PostgreSQL, made anew when it is lost: what its settings must be, and what its errors mean."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.memory.errors import BrokenMemoryError, UnavailableError
from anisocert.memory.postgres._place import Place

WAIT_SECONDS: Final = 60.0  # for the lock, and for a database that restarts
# A database that was not back by then: callers hear so at once, but for one in a while, which looks.
DOWN_SECONDS: Final = 5.0
# A writer that is silent for so long, on a machine that lost its power perhaps, holds the lock no longer; nor does one
# that takes none of the rows that the server sends, if it is reached over TCP.
_SILENT_SECONDS: Final = 45.0
_SETTINGS: Final = f"""
SET search_path = ''; SET jit = off; SET lock_timeout = '{WAIT_SECONDS:.0f}s';
SET tcp_user_timeout = '{_SILENT_SECONDS:.0f}s';
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"""
_BEGIN_WRITING: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SILENCE: Final = f"SET LOCAL idle_in_transaction_session_timeout = '{_SILENT_SECONDS:.0f}s'"
_CIRCUMSTANCES: Final = "SELECT current_setting('fsync'), current_setting('synchronous_commit'), pg_is_in_recovery()"

# Tables or columns that are not there or are others, rows that must not be there, text that is none.
_NO_MEMORY: Final = (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.IntegrityError, UnicodeDecodeError)

Statement = tuple[str, Sequence[Any]]


class Session:
    """Transactions, one at a time. Every method may raise psycopg.Error; `explained` says what it means."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._warnings: list[str] = []
        self._down_until = 0.0
        with self.explained():
            self._connect()

    def _connect(self) -> None:
        self._connection = psycopg.connect(**self._place.settings, autocommit=True)
        self._connection.add_notice_handler(lambda notice: self._warnings.append(notice.message_primary or ""))
        self._connection.execute(_SETTINGS)

    @property
    def lost(self) -> bool:
        """Whether the connection is gone."""
        return bool(self._connection.closed)

    def begin(self, write: bool, statements: Sequence[Statement] = ()) -> list[list[tuple[Any, ...]]]:
        """Start a transaction with some statements, and return the rows of each.

        write: every statement sees all that was committed before it began. Otherwise all of them see one moment.
        Where the connection was lost it is made anew, for a while again and again: nothing has been done yet. Once
        that was in vain, nobody waits like that again before the database is back.
        """
        first = [_BEGIN_WRITING, _SILENCE] if write else [_BEGIN_READING]
        # Last, so that statements that lock tables come before any that is about one moment.
        whole: list[Statement] = [*((statement, ()) for statement in first), *statements, (_CIRCUMSTANCES, ())]
        deadline, pause = time.monotonic() + (0.0 if self._down_until else WAIT_SECONDS), 0.02
        if self.lost and time.monotonic() < self._down_until:
            raise UnavailableError(f"cannot use the memory {self._place.shown}: the database is down; ask again later")
        while True:
            try:
                if self.lost:
                    self._connect()
                results = self._pipelined(whole)
                break
            except psycopg.Error as error:
                self.abandon()
                if _ends_the_connection(error):  # which may not have noticed yet
                    self.close()
                if self.lost and time.monotonic() > deadline:
                    self._down_until = time.monotonic() + DOWN_SECONDS
                if not self.lost or time.monotonic() > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
        self._down_until = 0.0
        self._expect_durable(write, *results[-1][0])
        return results[len(first) : -1]

    def _pipelined(self, statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
        """One round trip for all but the last: after a pipeline, a server does not notice that a client is silent."""
        with self._connection.pipeline():
            cursors = [self.execute(*statement) for statement in statements[:-1]]
        cursors.append(self.execute(*statements[-1]))
        return [[] if cursor.description is None else cursor.fetchall() for cursor in cursors]

    def _expect_durable(self, write: bool, fsync: str, commit: str, standby: bool) -> None:
        if standby:  # which may not know the newest promises yet
            raise ArgumentError(f"expected the primary server of the memory {self._place.shown}, got a standby")
        if write and (fsync != "on" or commit not in ("on", "remote_apply")):
            raise ArgumentError(
                f"expected a server with fsync and synchronous_commit on for the memory {self._place.shown}, as an "
                f"acknowledged promise must survive it, got fsync {fsync}, synchronous_commit {commit}"
            )

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """A cursor after one statement."""
        return self._connection.execute(statement.encode(), values or None, binary=True)

    def insert(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """One statement for each row of values, which must add one row each."""
        *most, last = rows
        with self._connection.cursor() as cursor:
            if most:
                cursor.executemany(statement.encode(), most)
            kept = (cursor.rowcount if most else 0) + self.execute(statement, last).rowcount
        if kept != len(rows):
            raise BrokenMemoryError(f"the memory {self._place.shown} has kept {kept} of {len(rows)} rows")

    def commit(self) -> bool:
        """End the transaction; False if the outcome is not known for sure, and the connection is gone."""
        self._warnings.clear()
        try:
            status = self.execute("COMMIT").statusmessage
        except psycopg.Error:
            # Only a server that is ready for the next transaction has said that it has undone this one.
            if not self.lost and self._connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                raise
            self.close()
            return False
        if status != "COMMIT":  # an error before, which somebody has not heard
            raise BrokenMemoryError(f"the memory {self._place.shown} has ended a transaction by {status}")
        if self._warnings:  # it is on the disk here, but perhaps not on that of a standby, which must have it, too
            self.close()
        return not self._warnings

    def abandon(self) -> None:
        """Undo the transaction under way, if any; a connection that cannot is left, which undoes it too."""
        status, statuses = self._connection.info.transaction_status, psycopg.pq.TransactionStatus
        with suppress(psycopg.Error):
            if status in (statuses.INTRANS, statuses.INERROR):
                self._connection.execute("ROLLBACK")
            if self._connection.info.transaction_status == statuses.IDLE:
                return
        self._connection.close()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn PostgreSQL's errors into ours; their details may hold values of rows, so only the first line is told."""
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise UnavailableError(
                f"cannot use the memory {self._place.shown}: another process has kept it locked for "
                f"{WAIT_SECONDS:.0f} seconds; nothing was stored"
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise AnisocertError(f"cannot use the memory {self._place.shown}: {_line(error)}") from error
        except _NO_MEMORY as error:
            raise BrokenMemoryError(f"{self._place.shown} is not a memory, or is damaged: {_line(error)}") from error
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise ArgumentError(f"expected values that PostgreSQL can hold, got others: {_line(error)}") from error
        except psycopg.OperationalError as error:
            raise UnavailableError(
                f"cannot use the memory {self._place.shown}: {_line(error)}; nothing was stored"
            ) from error
        except psycopg.Error as error:
            kind = UnavailableError if self.lost else AnisocertError
            raise kind(f"cannot use the memory {self._place.shown}: {_line(error)}; nothing was stored") from error


def _ends_the_connection(error: psycopg.Error) -> bool:
    """Whether there was no answer, or one from a server that shuts down or begins."""
    return isinstance(error, psycopg.OperationalError) and (error.sqlstate or "57P").startswith(("57P", "08"))


def _line(error: Exception) -> str:
    message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    return " ".join(message.split())
