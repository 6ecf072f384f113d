"""Ellipsoids: where A and B touch, and whether they are disjoint.

With y = c_B - c_A, for every l >= 0

    (smallest gauge_B over A)^2  >=  l (S(l) - 1),      S(l) = sum_i y_i^2 / (a_i^2 + l b_i^2),

with equality at the best l: this is the Lagrange dual of projecting c_B onto A in the norm of B. The right side is
concave in l, and since ANY l gives a bound, a solver that stops early can only be too careful. Disjoint <=> some l
gives more than 1, which is the well-known sum y_i^2 t(1-t) / (t b_i^2 + (1-t) a_i^2) > 1 with t = l / (1 + l).

The point x_i = y_i a_i^2 / (a_i^2 + l b_i^2) has gauge_A^2 = G and gauge_B^2 = l^2 H, and S = G + l H, where

    G = sum_i y_i^2 a_i^2 / (a_i^2 + l b_i^2)^2,        H = sum_i y_i^2 b_i^2 / (a_i^2 + l b_i^2)^2.

Both gauges at most 1: x is common to A and B. G = 1: x is the point where the growing B first touches A.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anisocert.geometry._pairs import Pairs
from anisocert.geometry.region import FloatArray
from anisocert.rounding import UNIT_ROUNDOFF

_MOST_STEPS: Final = 100
# The logarithm of a multiplier stays in this range, in which no sum overflows.
_LOG_RANGE: Final = 290.0


class _Sums(NamedTuple):
    """G, H, and cross = sum_i y_i^2 a_i^2 b_i^2 / (a_i^2 + l b_i^2)^3, at one multiplier l per pair."""

    g: FloatArray
    h: FloatArray
    cross: FloatArray
    lower: FloatArray  # proven lower bound of the touch scale


class _Squares(NamedTuple):
    """Squared separations and axes of some pairs; shapes as in Pairs."""

    pairs: Pairs
    separation: FloatArray
    a: FloatArray
    b: FloatArray

    @classmethod
    def of(cls, pairs: Pairs) -> _Squares:
        return cls(pairs, np.square(pairs.separation), np.square(pairs.a), np.square(pairs.b))

    def rows(self, keep: NDArray[np.bool_]) -> _Squares:
        b = self.b if len(self.b) == 1 else self.b[keep]
        return _Squares(self.pairs[keep], self.separation[keep], self.a[keep], b)

    def lower(self, multiplier: FloatArray, total: FloatArray) -> FloatArray:
        """Proven lower bound of the touch scale from S(l)."""
        excess = total * (1.0 - self.pairs.rounding) - 1.0
        bound = np.sqrt(multiplier) * np.sqrt(np.maximum(excess, 0.0)) * (1.0 - 8.0 * UNIT_ROUNDOFF)
        return self.pairs.in_units_of_b(bound)

    def shot(self, multiplier: FloatArray) -> FloatArray:
        """The lower bound at one multiplier per pair, without the sums that a solver needs to continue."""
        width = self.b * multiplier[:, None]
        width += self.a
        np.divide(self.separation, width, out=width)
        return self.lower(multiplier, width.sum(axis=1))

    def at(self, multiplier: FloatArray) -> _Sums:
        """All sums at one multiplier per pair."""
        width = self.b * multiplier[:, None]
        width += self.a
        term = self.separation / width
        term /= width
        h = (term * self.b).sum(axis=1)
        term *= self.a
        g = term.sum(axis=1)
        term /= width
        term *= self.b
        cross = term.sum(axis=1)
        return _Sums(g, h, cross, self.lower(multiplier, g + multiplier * h))


def touch(pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Largest scale at which B stays outside the interior of A, rounded down; 0 where c_B lies in A.

    Returns:
        The scales and the multipliers that prove them, n each.
    """
    scale, best = np.zeros(len(pairs)), np.zeros(len(pairs))
    squares = _Squares.of(pairs)
    outside = (squares.separation / squares.a).sum(axis=1) * (1.0 - pairs.rounding) > 1.0
    live = np.flatnonzero(outside)
    if len(live) < len(pairs):
        squares = squares.rows(outside)
    if not len(live):
        return scale, best
    multiplier = _start(squares)
    for _ in range(_MOST_STEPS):
        sums = squares.at(multiplier)
        better = sums.lower > scale[live]
        scale[live[better]], best[live[better]] = sums.lower[better], multiplier[better]
        # Newton's method for 1 / sqrt(G) = 1: that function of the multiplier is concave and nearly straight, so steps
        # from the left never pass the root. G is rounded down as in the bound, whose slope is then G - 1.
        g = sums.g * (1.0 - pairs.rounding)
        step = g * (np.sqrt(g) - 1.0) / sums.cross
        value = multiplier * (g + multiplier * sums.h - 1.0)
        more = ((g - 1.0) * step > 1e-14 * value) & (step > 1e-15 * multiplier) & np.isfinite(step)
        if not more.any():
            break
        multiplier = (multiplier + step)[more]
        if not more.all():
            squares, live = squares.rows(more), live[more]
    return scale, best


def _start(squares: _Squares) -> FloatArray:
    """A multiplier left of the root of G = 1.

    With e = a^2/b^2 and q = y a/b^2, G = sum q_i^2 / (e_i + l)^2; one term of it alone is at most 1 from l = q_i - e_i
    on, and all e_i replaced by the largest leave ||q|| - max e.
    """
    e = squares.a / squares.b
    q = squares.pairs.separation * squares.pairs.a / squares.b
    top = q.max(axis=1)
    length = top * np.sqrt(np.square(q / top[:, None]).sum(axis=1))
    bound = np.maximum((q - e).max(axis=1), length * (1.0 - squares.pairs.rounding) - e.max(axis=1))
    start: FloatArray = np.maximum(bound, 0.0)
    return start


def separated(pairs: Pairs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pairs are proven disjoint, and which are too close to touching to tell (the others have a common point).

    Searches the point of equal gauges: there the bound is above 1 or the point is common, unless A and B just touch.
    """
    proven, close = np.zeros(len(pairs), dtype=bool), np.zeros(len(pairs), dtype=bool)
    inside = 1.0 - 4.0 * pairs.rounding
    squares = _Squares.of(pairs)
    center_in_a = np.sqrt((squares.separation / squares.a).sum(axis=1))
    center_in_b = np.sqrt((squares.separation / squares.b).sum(axis=1))
    undecided = (center_in_a > inside) & (pairs.in_units_of_b(center_in_b) > inside)
    unit = pairs.shift * np.log(2.0)
    # Exact where a and b are proportional, and good enough to prove most disjoint pairs at once.
    log_l = (np.log(center_in_b) - np.log(center_in_a) - unit).clip(-_LOG_RANGE, _LOG_RANGE)
    if undecided.any():
        proven = undecided & (squares.shot(np.exp(log_l)) > 1.0)
        undecided &= ~proven
    live = np.flatnonzero(undecided)
    if not len(live):
        return proven, close
    if len(live) < len(pairs):
        squares, log_l = squares.rows(undecided), log_l[live]
    low, high = np.full(len(live), -_LOG_RANGE), np.full(len(live), _LOG_RANGE)
    for _ in range(_MOST_STEPS):
        multiplier = np.exp(log_l)
        sums = squares.at(multiplier)
        log_a, log_b = np.log(sums.g) / 2.0, np.log(sums.h) / 2.0 + log_l + unit[live]
        apart = sums.lower > 1.0
        common = np.maximum(log_a, log_b) < inside - 1.0
        proven[live[apart]] = True
        # Newton's method for log gauge_A = log gauge_B in log l, bisection where it would leave the bracket.
        low, high = np.where(log_a > log_b, log_l, low), np.where(log_a > log_b, high, log_l)
        step = (log_a - log_b) / (sums.cross * (1.0 / sums.h + multiplier / sums.g))
        target = log_l + step
        target = np.where((target > low) & (target < high), target, (low + high) / 2.0)
        settled = (np.abs(step) < 1e-9) | (high - low < 1e-9)
        more = ~(apart | common | settled)
        close[live[settled & ~apart & ~common]] = True
        if not more.any():
            break
        log_l = target
        if not more.all():
            squares, live = squares.rows(more), live[more]
            log_l, low, high = log_l[more], low[more], high[more]
    else:
        close[live] = True
    return proven, close
