"""Whether one region contains another, and the copy of a region that fits inside it around another point."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from anisocert.errors import ArgumentError
from anisocert.geometry.region import FloatArray, Region, checked_point, p_norm
from anisocert.rounding import UNIT_ROUNDOFF, down, error_of_sum


def superset(a: Region, b: Region) -> bool:
    """Whether a contains b: True only when proven. The two may differ in centre and in norm.

    With one centre and one norm this is a.axes >= b.axes, the superior certificate of the paper's Definition 1.
    """
    if a.shape != b.shape:
        raise ArgumentError(f"b: expected the shape of a, {a.shape}, got {b.shape}")
    same_center = np.array_equal(a.center, b.center)
    if same_center and a.norm >= b.norm:
        # A cross-polytope lies in an ellipsoid if its corners do.
        return bool((a.axes >= b.axes).all())
    with np.errstate(over="ignore"):
        ratio = (b.axes / a.axes).ravel()
        offset = (np.abs(b.center - a.center) / a.axes).ravel()
    # A necessary condition that keeps every number below small; what is left is rounded up and compared with 1.
    if max(ratio.max(), offset.max()) > 1.0:
        return False
    return _largest_gauge(offset, ratio, a.norm, b.norm) * (1.0 + error_of_sum(a.dim)) <= 1.0


def _largest_gauge(offset: FloatArray, ratio: FloatArray, norm_a: int, norm_b: int) -> float:
    """Largest gauge of A on B, up to rounding, or an upper bound of it that is at most 1 only if the largest gauge is.

    Args:
        offset: |c_B - c_A| / a, d numbers.
        ratio: b / a, d numbers.
        norm_a: norm of A.
        norm_b: norm of B.
    """
    if norm_a == 1:
        # Linear on the orthant that B's centre points to: the l_p support of B adds to the gauge of its centre.
        return float(offset.sum() + (ratio.max() if norm_b == 1 else p_norm(ratio, 2)))
    if norm_b == 1:
        # A convex function is largest at a corner.
        corners = np.square(offset).sum() + ratio * (2.0 * offset + ratio)
        return float(np.sqrt(corners.max()))
    # Ellipsoid in ellipsoid: for every m > max r^2, (largest gauge)^2 <= m + sum_i o_i^2 m / (m - r_i^2), convex in m
    # and equal at the best m (the S-lemma). Any m up to 1 proves it.
    o, r = np.square(offset), np.square(ratio) * (1.0 + 8.0 * UNIT_ROUNDOFF)
    low, high = float(r.max()) * (1.0 + 4.0 * UNIT_ROUNDOFF), 1.0
    for _ in range(60):
        m = (low + high) / 2.0
        slope = 1.0 - float((o * r / np.square(m - r)).sum()) if m > r.max() else -np.inf
        low, high = (m, high) if slope < 0 else (low, m)
    return float(np.sqrt(high + (o * high / (high - r)).sum())) if high > r.max() else np.inf


def inner_copy(a: Region, x: ArrayLike) -> Region:
    """The copy of a centred at x and scaled by 1 - gauge(x), rounded down: inside a, by the triangle inequality.

    Raises:
        ArgumentError: x is not inside a, or so close to its boundary that rounding leaves no copy.
    """
    point = checked_point("x", x, a.shape)
    gauge = a.gauge(point)
    error = 4.0 * error_of_sum(a.dim)
    scale = 1.0 - gauge * (1.0 + error) - error
    if not scale > 0.0:
        raise ArgumentError(f"x: expected a point inside the region, gauge below 1, got gauge {gauge}")
    axes = down(a.axes * scale)
    if not axes.min() > 0.0:
        raise ArgumentError(f"x: expected a point well inside the region, got one that leaves a copy of scale {scale}")
    return Region(point, axes, a.norm)
