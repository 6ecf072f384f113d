"""Checksums that tie each row to those before it, and the last one to the head: none changes, comes or goes unnoticed.

They find accidents and edits. Whoever may write the file can compute them as well; even then promises must agree with
their evidence (check.py).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from anisocert.memory.errors import BrokenMemoryError


def link(previous: bytes, values: Iterable[Any]) -> bytes:
    """SHA-256 of a row's values, with their types, and of the link before it."""
    digest = hashlib.sha256(previous)
    for value in values:
        kind, content = _as_bytes(value)
        digest.update(b"%s%d:" % (kind, len(content)))
        digest.update(content)
    return digest.digest()


def first(table: str, generation: str) -> bytes:
    """What the first row of a table is tied to, so that no other memory's rows fit."""
    return link(b"anisocert memory", (table, generation))


def linked(rows: Iterable[tuple[Any, ...]], previous: bytes, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows, whose last value is their link, if that is what it must be.

    Raises:
        BrokenMemoryError: a row was changed, or one before it has come or gone.
    """
    for row in rows:
        previous = link(previous, row[:-1])
        if row[-1] != previous:
            raise BrokenMemoryError(
                f"this memory is broken: row {row[0]} of its {table} is not what was written, or one before it is not; "
                "nothing may be answered from it. Delete it (a file: with its -wal and -shm), and pass the runs "
                "through a new one: anisocert memory add RUN --memory NEW"
            )
        yield row


def _as_bytes(value: Any) -> tuple[bytes, bytes]:
    if isinstance(value, bytes):
        return b"b", value
    if isinstance(value, str):
        return b"s", value.encode("utf-8", "surrogatepass")
    if isinstance(value, float):
        return b"f", struct.pack("<d", value)
    if value is None:
        return b"n", b""
    return b"i", b"%d" % value
