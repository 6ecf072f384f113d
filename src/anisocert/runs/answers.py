"""A memory's answers in a run's rows: whether they follow from what the run proposed, and the memory backs them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from anisocert.certificate import ABSTAIN, COUNTING, Certificate
from anisocert.memory import ABSTAINED, INHERITED, KEPT, SHRUNK, Memory
from anisocert.rounding import PORTABLE, TOLERANCE
from anisocert.smoothing import SELECTOR


def check_answer(row: Mapping[str, Any], answer: int, radius: float, proxy: float, note: str) -> Iterator[str]:
    """What is wrong with one row's answer, given what the run proposed."""
    if not 0 <= radius <= proxy:
        yield f"memory answers with radius {radius} and proxy radius {proxy}"
    if note == ABSTAINED and (answer != ABSTAIN or proxy != 0):
        yield f"memory abstained, with answer {answer} and proxy radius {proxy}"
    elif note == INHERITED and answer == ABSTAIN:
        yield "memory inherited an abstention, which is not a promise"
    elif note not in (ABSTAINED, INHERITED, KEPT, SHRUNK):
        yield f"memory_note is {note!r}"
    if note not in (KEPT, SHRUNK):
        return
    if answer == ABSTAIN or answer != row["prediction"]:
        yield f"memory {note} the answer {answer}, the run's is {row['prediction']}"
    for name, size in (("radius", radius), ("proxy_radius", proxy)):
        if not size <= row[name] * (1 + (name == "proxy_radius") * PORTABLE):
            yield f"memory {note} a {name} of {size!r}, the run's is {row[name]!r}: it claims too much"
        elif note == KEPT and not size >= row[name] * (1 - TOLERANCE):
            yield f"memory kept a {name} of {size!r}, the run's is {row[name]!r}"


def unbacked(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """What a row's columns `memory_*` say that the memory does not hold. proposed: the row's own certificate."""
    check = {KEPT: _check_stored, SHRUNK: _check_stored, INHERITED: _check_inherited, ABSTAINED: _check_abstained}
    yield from check[row["memory_note"]](memory, row, proposed)


def _check_stored(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """The memory holds the row's own promise, from the same votes, around the same input, as large as the row says."""
    stored = memory.find(proposed.id)
    if stored is None or stored.region is None or proposed.region is None:
        yield "holds no promise to it"
        return
    if not same_votes(stored, proposed):
        yield "holds a promise to it from different votes"
    if stored.note != row["memory_note"] or stored.prediction != row["memory_prediction"]:
        yield f"holds the class {stored.prediction} for it, {stored.note}"
    if not np.array_equal(stored.region.center, proposed.region.center):
        yield "holds a promise around another input"
    axes, own = stored.region.axes, proposed.region.axes
    if not (axes <= own).all() or (stored.note == KEPT and not np.array_equal(axes, own)):
        yield "holds a different region than its votes and theta give"
    if row["memory_radius"] != stored.region.radius:
        yield f"holds a region of radius {stored.region.radius!r}, the row says {row['memory_radius']!r}"
    proxy, fresh = row["memory_proxy_radius"], stored.region.proxy_radius
    if not (1 - TOLERANCE) * fresh <= proxy <= (1 + PORTABLE) * fresh:
        yield f"holds a region of proxy radius {fresh!r}, the row says {proxy!r}"


def _check_inherited(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """A promise of that class covers the input, with as much room around it as the row says."""
    promises = memory.covers(_input(proposed))
    if (own := own_promise(memory, proposed)) is not None:
        promises.append(own)
    backed = [promise for promise in promises if promise.prediction == row["memory_prediction"]]
    if not backed:
        yield f"no promise of class {row['memory_prediction']} covers its input"
        return
    radius, proxy = row["memory_radius"], row["memory_proxy_radius"]
    if not any(radius <= promise.radius and proxy <= (1 + PORTABLE) * promise.proxy_radius for promise in backed):
        most = max(backed, key=lambda promise: promise.radius)
        yield (
            f"the promises that cover its input leave radius {most.radius!r} and proxy radius {most.proxy_radius!r}, "
            f"the row says {radius!r} and {proxy!r}: it claims too much"
        )


def own_promise(memory: Memory, proposed: Certificate) -> Certificate | None:
    """The promise to the same input under its id, perhaps from other votes, with its whole region."""
    own = memory.find(proposed.id)
    if own is None or own.region is None:
        return None
    return own if np.array_equal(own.region.center, np.asarray(_input(proposed), np.float64)) else None


def _input(proposed: Certificate) -> Any:
    return proposed.x if proposed.region is None else proposed.region.center


def _check_abstained(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """Nothing is promised from these votes; later votes about the same input may have led to a promise."""
    stored = memory.find(proposed.id)
    if stored is not None and same_votes(stored, proposed):
        yield "holds a promise to it from the same votes"


def same_votes(stored: Certificate, proposed: Certificate) -> bool:
    """Whether two certificates of one input rest on one counting, whatever a memory made of the region."""
    same = np.array_equal(stored.theta, proposed.theta)
    names = (*COUNTING, *(name for name in SELECTOR if name != "cap"), "noise", "p_a", "p_b")  # a cap follows
    return same and all(getattr(stored, name) == getattr(proposed, name) for name in names)
