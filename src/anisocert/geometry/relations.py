"""Exact relations between regions: disjoint, touch scale, distance. Never optimistic under float64 rounding.

Each compares one region B (or a point) with one region A or with many. Both kinds of body answer through the same two
functions, in _ellipsoid.py for norm 2 and in _crosspolytope.py for norm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError
from anisocert.geometry import _crosspolytope as crosspolytope
from anisocert.geometry import _ellipsoid as ellipsoid
from anisocert.geometry._pairs import Pairs, paired
from anisocert.geometry.region import FloatArray, Region, checked_point
from anisocert.geometry.regions import Regions
from anisocert.rounding import UNIT_ROUNDOFF, down, error_of_sum


class Body(Protocol):
    """What the two modules provide; see there."""

    def touch(self, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
        """Touch scales and their multipliers."""

    def separated(self, pairs: Pairs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Proven disjoint, and too close to tell."""


# Beside the square of a reach beyond this, what squares lose or gain by underflow is below the rounding of their sum.
_SMALLEST: Final = 1e-150
BODIES: Final[dict[int, Body]] = {1: crosspolytope, 2: ellipsoid}


@overload
def disjoint(a: Region, b: Region) -> bool: ...
@overload
def disjoint(a: Regions, b: Region) -> NDArray[np.bool_]: ...
def disjoint(a: Region | Regions, b: Region) -> bool | NDArray[np.bool_]:
    """Whether a and b have no common point: True only when proven, so touching regions give False.

    The answer does not depend on the order of the two.

    Returns:
        A bool for one region a, M of them for M regions.
    """
    stack = stacked(a, b)
    result = np.empty(len(stack), dtype=bool)
    longest_b = b.enclosing_radius
    axes_b = b.axes.reshape(1, -1)
    error = error_of_sum(b.dim)
    with np.errstate(all="ignore"):
        for rows, separation, axes in _separations(stack, b.center):
            # ||y|| beyond the two enclosing balls. An overflowing square proves nothing and is left to the solver, and
            # so are balls so small that squares round up as they underflow.
            length = separation.sum(axis=1) if b.norm == 1 else np.sqrt(np.square(separation).sum(axis=1))
            reach = (axes.max(axis=1) + longest_b) * (1.0 + 4.0 * UNIT_ROUNDOFF)
            apart = (length * (1.0 - error) > reach) & (reach > _SMALLEST) & np.isfinite(length)
            rest = np.flatnonzero(~apart)
            if 0 < len(rest) < len(separation):
                separation, axes = separation[rest], axes[rest]
            if len(rest):
                apart[rest] = _separated(BODIES[b.norm], separation, axes, axes_b)
            result[rows] = apart
    return result if isinstance(a, Regions) else bool(result[0])


def _separated(body: Body, separation: FloatArray, a: FloatArray, b: FloatArray) -> NDArray[np.bool_]:
    proven, close = body.separated(paired(separation, a, b))
    if close.any():
        # Rounding differs between (A, B) and (B, A): trying everything makes the answer the same in either order.
        forward, backward = paired(separation[close], a[close], b), paired(separation[close], b, a[close])
        proven[close] = body.separated(backward)[0] | (body.touch(forward)[0] > 1.0) | (body.touch(backward)[0] > 1.0)
    return proven


@overload
def touch_scale(a: Region, b: Region) -> float: ...
@overload
def touch_scale(a: Regions, b: Region) -> FloatArray: ...
def touch_scale(a: Region | Regions, b: Region) -> float | FloatArray:
    """Largest k, rounded down, such that b.scaled(k) has no point of the interior of a; 0.0 if b.center is in a.

    Returns:
        A float for one region a, M of them for M regions.
    """
    scale = _touch(stacked(a, b), b.center, b.axes)
    return scale if isinstance(a, Regions) else float(scale[0])


@overload
def distance(a: Region, point: ArrayLike) -> float: ...
@overload
def distance(a: Regions, point: ArrayLike) -> FloatArray: ...
def distance(a: Region | Regions, point: ArrayLike) -> float | FloatArray:
    """Distance from a point to a in the norm of a (l2 or l1), rounded down; 0.0 inside.

    Returns:
        A float for one region a, M of them for M regions.
    """
    z = checked_point("point", point, a.shape)
    scale = _touch(a if isinstance(a, Regions) else Regions.of(a), z, np.ones(z.shape))
    return scale if isinstance(a, Regions) else float(scale[0])


def _touch(stack: Regions, center: FloatArray, axes: FloatArray) -> FloatArray:
    """Touch scale of the region (center, axes) against each of the stack."""
    result = np.empty(len(stack))
    with np.errstate(all="ignore"):
        for rows, separation, a in _separations(stack, center):
            result[rows], _ = BODIES[stack.norm].touch(paired(separation, a, axes.reshape(1, -1)))
    # The solvers round down in scaled coordinates; one more step covers scaling back into subnormal numbers.
    return np.maximum(down(result), 0.0)


def _separations(stack: Regions, center: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield (rows, |center - centers|, axes) block by block, `m x dim`."""
    for rows, centers, axes in stack.blocks():
        separation = centers - center.reshape(1, -1)
        yield rows, np.abs(separation, out=separation), axes


def stacked(a: Region | Regions, b: Region) -> Regions:
    """The region or regions a as a stack, after a check that a and b can be compared."""
    if not isinstance(a, (Region, Regions)):
        raise ArgumentError(f"a: expected a Region or Regions, got {type(a).__name__}")
    if not isinstance(b, Region):
        raise ArgumentError(f"b: expected a Region, got {type(b).__name__}")
    if a.norm != b.norm:
        raise ArgumentError(f"b: expected the norm of a, {a.norm}, got {b.norm}")
    if a.shape != b.shape:
        raise ArgumentError(f"b: expected the shape of a, {a.shape}, got {b.shape}")
    return a if isinstance(a, Regions) else Regions.of(a)
