"""What keeps a memory's rows, whatever it is: an SQLite file, a database server, a list.

A memory is a head and three tables, whose rows are only ever added, numbered 1, 2, ... and chained (_chain.py). A
store keeps them as they are; what they mean, and whether they are what was written, is decided in _ledger.py, from rows
alone.
A new store is one class, and one line in opening.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol
from urllib.parse import unquote

from anisocert.memory._head import Head, Row, Table

_SECRET: Final = re.compile("password|secret|scram_.*_key", re.IGNORECASE)  # among the options of PostgreSQL's URLs


def shown(place: str) -> str:
    """A path as it is; a URL without its passwords, as it may be printed and written into a run."""
    scheme, mark, rest = place.partition("://")
    if not mark:
        return place
    rest = re.sub(r"(?<=[?&])([^&=]*)=[^&]*(&|$)", _unless_secret, rest).rstrip("?&")
    return f"{scheme}://" + re.sub(r"^([^:@]*):.*@", r"\1@", rest, flags=re.DOTALL)


def _unless_secret(option: re.Match[str]) -> str:
    return "" if _SECRET.search(unquote(option[1])) else option[0]


class Store(Protocol):
    """Everything except `begin`, `reset` and `close` is called inside a transaction, by one thread at a time.

    Rows have the columns of KINDS (_kinds.py), the number first and the link last.

    Args:
        place: a path or a URL; None for a memory that ends with the process.
        policy: of a memory that is created; an existing one keeps its own.
        read_only: nothing is ever created or changed.
    """

    place: str | None  # as `shown` gives it
    read_only: bool

    def __init__(self, place: str | None, policy: str, read_only: bool = False) -> None: ...

    @staticmethod
    def exists(place: str) -> bool:
        """Whether a memory is there; an error if none can be created there."""

    def begin(
        self, write: bool, generation: str = "", after: int = 0
    ) -> AbstractContextManager[tuple[Head, Iterator[Row]]]:
        """A transaction, all or nothing: the head, and the entries that were stored since the caller's last look.

        Those after number `after`; all of them if the memory is no longer of that generation.
        write: nobody else writes meanwhile. Otherwise all reads see one moment.
        """

    def append(self, head: Head, table: Table, rows: Iterable[Row]) -> None:
        """Add rows (entries, numbers that are reserved, submissions that are counted), and put the head in place."""

    def rows(self, table: Table, after: int = 0) -> Iterator[Row]:
        """All rows of a table after a number, in order."""

    def find(self, table: Table, column: str, value: Any) -> list[Row]:
        """Rows with a value in a column of `keys` (_kinds.py), in order."""

    def regions(self, numbers: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
        """Centre and semi-axes of some entries, in that order: the bulk of what is read to answer."""

    def columns(self, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        """Some columns of all entries, in order."""

    def reset(self, policy: str) -> None:
        """Drop all rows so that nobody can read them again; the head becomes `Head.emptied`. A transaction itself.

        policy: see there.
        """

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""

    def damage(self) -> list[str]:
        """What the store itself finds wrong; empty if all is well."""

    def close(self) -> None:
        """Release what is held."""
