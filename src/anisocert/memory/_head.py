"""What a memory belongs to, and what its tables must hold: one row, sealed by a checksum of itself."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from anisocert.memory import _chain as chain
from anisocert.memory import _kinds as kinds
from anisocert.memory.errors import BrokenMemoryError, ChangedError

Table = Literal["entries", "submissions", "numbers"]
Row = tuple[Any, ...]
TABLES: Final[tuple[Table, ...]] = ("entries", "submissions", "numbers")


@dataclass(frozen=True)
class Head:
    """model_hash, norm and shape are None until the first entry. generation: changes with every reset.

    lifetime: alpha for all promises together, None if each has its own. probe: scores of the network, float32 bytes
    of the shape probe_shape, and the hash of that network.
    entries, submissions, numbers: rows of these tables, and the link of the last one. alphas: of all submissions.
    """

    policy: str
    generation: str
    created: float
    model_hash: str | None
    norm: int | None
    shape: tuple[int, ...] | None
    lifetime: float | None
    probe: bytes | None
    probe_shape: tuple[int, ...] | None
    probe_hash: str | None
    alphas: float
    entries: int
    entries_link: bytes
    submissions: int
    submissions_link: bytes
    numbers: int
    numbers_link: bytes

    @classmethod
    def new(cls, policy: str, lifetime: float | None = None) -> Head:
        """The head of an empty memory."""
        generation = uuid.uuid4().hex
        entries, submissions, numbers = (chain.first(table, generation) for table in TABLES)
        return cls(
            policy, generation, time.time(), None, None, None, lifetime, None, None, None,
            0.0, 0, entries, 0, submissions, 0, numbers,
        )  # fmt: skip

    def emptied(self, policy: str) -> Head:
        """The head of the same memory after a reset: policy and lifetime stay.

        policy: that the caller knows it to have; an error if it has another one by now.
        """
        if self.policy != policy:
            raise ChangedError(f"expected a memory with policy {policy!r} to empty, got {self.policy!r}: open it again")
        return Head.new(self.policy, self.lifetime)

    def last(self, table: Table) -> tuple[int, bytes]:
        """Number and link of the last row of a table."""
        return getattr(self, table), getattr(self, f"{table}_link")

    def extended(self, table: Table, values: Iterable[Sequence[Any]], **changes: Any) -> tuple[Head, list[Row]]:
        """The head once rows with these values are added, and these rows, tied to those before them."""
        count, link = self.last(table)
        rows: list[Row] = []
        for row in values:
            count += 1
            link = chain.link(link, (count, *row))
            rows.append((count, *row, link))
        changed: dict[str, Any] = {table: count, f"{table}_link": link, **changes}
        return replace(self, **changed), rows

    def to_row(self) -> Row:
        """Values in the order of COLUMNS, the seal last."""
        values = [getattr(self, name) for name in COLUMNS[:-1]]
        row = tuple(json.dumps(value) if isinstance(value, tuple) else value for value in values)
        return (*row, chain.link(b"head", row))

    @classmethod
    def of_row(cls, row: Row | None) -> Head:
        """Back from a row; an error unless it is as written."""
        if row is None or chain.link(b"head", row[:-1]) != row[-1]:
            raise BrokenMemoryError("this memory is broken: its head is not what was written")
        kinds.expect("head", COLUMNS, row)
        values = dict(zip(COLUMNS, row[:-1], strict=False))
        for name in ("shape", "probe_shape"):
            values[name] = kinds.shape(name, values[name])
        head = cls(**values)
        scores = None if head.probe_shape is None else 4 * math.prod(head.probe_shape)
        if scores != (None if head.probe is None else len(head.probe)) or (scores is None) != (not head.probe_hash):
            raise BrokenMemoryError("this memory is broken: its probe does not fit its probe_shape, or has no network")
        if head.norm not in (None, 1, 2) or not (head.lifetime is None or 0 < head.lifetime < 1):
            raise BrokenMemoryError(
                f"this memory is broken: expected norm 1 or 2, lifetime in (0, 1), got {head.norm}, {head.lifetime}"
            )
        if (head.model_hash is None) != (head.norm is None) or (head.norm is None) != (head.shape is None):
            raise BrokenMemoryError("this memory is broken: expected its model, norm and shape, got only some of them")
        if head.shape is not None and not head.entries:  # any size may be said, and networks are tried with it
            raise BrokenMemoryError(f"this memory is broken: expected no shape without an entry, got {head.shape}")
        return head


COLUMNS: Final = (*(field.name for field in fields(Head)), "seal")
