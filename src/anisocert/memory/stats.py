"""Counts and sizes of a memory."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from anisocert.memory import _spending as spending
from anisocert.memory._ledger import Ledger


@dataclass(frozen=True)
class Stats:
    """classes, notes: entries of each. Radii are medians, 0 without entries. Times are seconds since 1970.

    submissions: certificates that came, abstentions included, whose alphas add up to `alphas`. lifetime: alpha for all
    promises together, None if each has its own; numbers: how many were given out, with `spent` of it.
    """

    entries: int
    classes: dict[int, int]
    notes: dict[str, int]
    median_radius: float
    median_proxy_radius: float
    policy: str
    model_hash: str | None
    norm: int | None
    shape: tuple[int, ...] | None
    created: float
    newest: float | None
    file_bytes: int
    index_bytes: int
    submissions: int
    alphas: float
    lifetime: float | None
    numbers: int
    spent: float


def stats(ledger: Ledger) -> Stats:
    """Counts and sizes; called inside a transaction."""
    head = ledger.head
    rows = ledger.columns("prediction", "note", "radius", "proxy_radius", "time")
    classes, notes, radius, proxy, time = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    same = {field.name for field in fields(Stats)} & {field.name for field in fields(head)}
    return Stats(
        classes={label: classes.count(label) for label in sorted(set(classes))},
        notes={note: notes.count(note) for note in sorted(set(notes))},
        median_radius=float(np.median(radius)) if rows else 0.0,
        median_proxy_radius=float(np.median(proxy)) if rows else 0.0,
        newest=max(time, default=None),
        file_bytes=ledger.store.nbytes,
        index_bytes=ledger.index.nbytes,
        spent=spending.spent(head),
        **{name: getattr(head, name) for name in same},
    )
