"""One alpha for all promises that a memory will ever make, spent little by little.

The certificate of number i may be wrong with probability alpha/(i(i+1)), which over all i adds up to alpha. Every
proposal counts, also one that abstains or is not stored: its votes might have certified it, wrongly, and it is the same
votes that decide who is stored. So numbers are given before the votes are drawn, and what was spent is added up when
certificates come, whoever made them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import Certificate
from anisocert.errors import ArgumentError
from anisocert.memory.store import Store


@dataclass(frozen=True)
class Spending:
    """alpha: for everything. numbers: how many were given out. spent: by the certificates that came."""

    alpha: float
    numbers: int
    spent: float


def read(store: Store) -> Spending | None:
    """What was spent so far; None where each certificate has an alpha of its own. Asked inside a transaction."""
    if not store.select("SELECT 1 FROM sqlite_master WHERE name = 'lifetime'"):
        return None
    return Spending(*store.select("SELECT alpha, numbers, spent FROM lifetime")[0])


def begin(store: Store, alpha: float, entries: int) -> None:
    """Have one alpha for everything from now on; refused where promises were made otherwise."""
    if not 0 < alpha < 1:
        raise ArgumentError(f"lifetime: expected alpha in (0, 1), got {alpha}")
    known = read(store)
    if known is not None and known.alpha == alpha:
        return
    if entries or (known is not None and known.numbers):
        has = "each with an alpha of its own" if known is None else f"with {known.alpha:g} for all"
        raise ArgumentError(f"lifetime: expected {alpha:g} from the first promise on, got {store.path}, {has}")
    store.change("DROP TABLE IF EXISTS lifetime")
    store.change(
        "CREATE TABLE lifetime (one INTEGER PRIMARY KEY CHECK (one = 1), alpha REAL NOT NULL, "
        "numbers INTEGER NOT NULL, spent REAL NOT NULL)"
    )
    store.change("CREATE TABLE IF NOT EXISTS spent (evidence TEXT PRIMARY KEY)")
    store.change("INSERT INTO lifetime VALUES (1, ?, 0, 0.0)", alpha)


def reserve(store: Store, count: int) -> int:
    """The first of so many numbers, which from now on nobody else gets."""
    known = read(store)
    if known is None:
        raise ArgumentError(f"expected a memory with a lifetime alpha to reserve from, got {store.path} without")
    if count < 1:
        raise ArgumentError(f"count: expected at least 1, got {count}")
    store.change("UPDATE lifetime SET numbers = numbers + ?", count)
    return known.numbers + 1


def spend(store: Store, proposed: Certificate, point: NDArray[np.generic]) -> None:
    """Count a certificate, of the input `point`, that was not counted yet; refused where too little is left."""
    known = read(store)
    if known is None:
        return
    p = proposed
    # Equal counts of another input, or under other noise, are other votes: both belong to the name.
    noise = hashlib.sha256(np.ascontiguousarray(p.theta).tobytes() + np.ascontiguousarray(point).tobytes()).hexdigest()
    evidence = f"{p.id} {p.seed} {p.alpha!r} {p.votes} {p.top_votes} {p.bound_n} {p.bound} {p.stop} {p.method} {noise}"
    if store.select("SELECT 1 FROM spent WHERE evidence = ?", evidence):
        return
    total = known.spent + p.alpha
    # The sum of alpha/(i(i+1)) stays below alpha by more than rounding, however many there are.
    if total > known.alpha:
        raise ArgumentError(
            f"certificate {p.id}: expected an alpha of at most {known.alpha - known.spent:.3g}, what is left of this "
            f"memory's lifetime alpha of {known.alpha:g}, got {p.alpha:g}: certify with --lifetime, or by the numbers "
            "of Memory.reserve"
        )
    store.change("INSERT INTO spent VALUES (?)", evidence)
    store.change("UPDATE lifetime SET spent = ?", total)


def overspent(store: Store) -> list[str]:
    """What is wrong with the account: entries cannot have spent more than was counted, nor that be more than all."""
    known = read(store)
    if known is None:
        return []
    stored = sum(alpha for (alpha,) in store.select("SELECT alpha FROM entries"))
    if stored <= known.spent * (1 + 1e-9) and known.spent <= known.alpha:
        return []
    return [f"its entries spend {stored:g}, {known.spent:g} was counted, of a lifetime alpha of {known.alpha:g}"]


def forget(store: Store) -> None:
    """Begin anew, with the same alpha, after all promises were dropped."""
    if read(store) is not None:
        store.change("UPDATE lifetime SET numbers = 0, spent = 0.0")
        store.change("DELETE FROM spent")
