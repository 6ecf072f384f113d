"""Cross-polytopes: where A and B touch, and whether they are disjoint.

The smallest gauge_B over A is a fractional knapsack: move from c_B towards c_A by t_i <= |y_i| in coordinate i, at a
price of 1/b_i, until the gauge of A has fallen to 1, spending first where a_i/b_i is smallest. Its linear-programming
dual says that for every l >= 0

    smallest gauge_B over A  >=  l (Q(l) - 1),      Q(l) = sum_i |y_i| / max(a_i, l b_i),

concave in l, with equality at the a_i/b_i of the coordinate in which the knapsack ends. ANY l gives a bound. The point
that has moved all the way where a_i < l b_i and not at all elsewhere has

    gauge_A = sum over the others of |y_i|/a_i,      gauge_B = l (Q(l) - gauge_A) = sum over the moved of |y_i|/b_i;

both at most 1: it is common to A and B.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anisocert.geometry._pairs import Pairs
from anisocert.geometry.region import FloatArray
from anisocert.rounding import UNIT_ROUNDOFF


def touch(pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Largest scale at which B stays outside the interior of A, rounded down; 0 where c_B lies in A.

    Returns:
        The scales and the multipliers that prove them, n each.
    """
    gauge = pairs.separation / pairs.a
    ratio = pairs.a / pairs.b
    order = np.argsort(ratio, axis=1)[:, ::-1]
    remaining = np.cumsum(np.take_along_axis(gauge, order, axis=1), axis=1)
    # Where the bound is largest after rounding down, which matters where the plain sum is a few bits above 1.
    last = np.minimum((remaining * (1.0 - pairs.rounding) <= 1.0).sum(axis=1), ratio.shape[1] - 1)
    end = np.take_along_axis(order, last[:, None], axis=1)
    multiplier = np.take_along_axis(ratio, end, axis=1)[:, 0]
    return _lower(pairs, multiplier, _shares(pairs, multiplier).sum(axis=1)), multiplier


def _shares(pairs: Pairs, multiplier: FloatArray) -> FloatArray:
    """The terms of Q at one multiplier per pair, `n x d`."""
    width = pairs.b * multiplier[:, None]
    np.maximum(width, pairs.a, out=width)
    return np.divide(pairs.separation, width, out=width)


def _lower(pairs: Pairs, multiplier: FloatArray, total: FloatArray) -> FloatArray:
    """Proven lower bound of the touch scale from Q(l)."""
    excess = total * (1.0 - pairs.rounding) - 1.0
    return pairs.in_units_of_b(multiplier * np.maximum(excess, 0.0) * (1.0 - 8.0 * UNIT_ROUNDOFF))


def separated(pairs: Pairs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pairs are proven disjoint, and which are too close to touching to tell (the others have a common point).

    One good guess of the multiplier decides nearly all pairs in either direction; only the rest is sorted.
    """
    close = np.zeros(len(pairs), dtype=bool)
    inside = 1.0 - 4.0 * pairs.rounding
    center_in_a = (pairs.separation / pairs.a).sum(axis=1)
    center_in_b = (pairs.separation / pairs.b).sum(axis=1)
    undecided = (center_in_a > inside) & (pairs.in_units_of_b(center_in_b) > inside)
    if not undecided.any():
        return close, close
    multiplier = center_in_b / center_in_a
    shares = _shares(pairs, multiplier)
    proven = undecided & (_lower(pairs, multiplier, shares.sum(axis=1)) > 1.0)
    live = np.flatnonzero(undecided & ~proven)
    if not len(live):
        return proven, close
    pairs, multiplier = pairs[live], multiplier[live]
    moved = pairs.a < pairs.b * multiplier[:, None]
    # Two sums, not a difference of sums: a large multiplier would blow up what rounding leaves of it.
    gauge_a = np.where(moved, 0.0, shares[live]).sum(axis=1)
    gauge_b = pairs.in_units_of_b(multiplier * np.where(moved, shares[live], 0.0).sum(axis=1))
    rest = np.maximum(gauge_a, gauge_b) > inside
    if rest.any():
        pairs = pairs[rest]
        scale, multiplier = touch(pairs)
        # The bound is l Q - l with Q rounded down: what rounding may have cost is a share of scale + l.
        error = 4.0 * pairs.rounding * (scale + pairs.in_units_of_b(multiplier))
        proven[live[rest]] = scale > 1.0
        close[live[rest]] = (scale <= 1.0) & (scale + error > 1.0 - 1e-6)
    return proven, close
