"""The largest region around B's centre, inside B, that is provably disjoint from A, or from many A at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from anisocert.errors import ArgumentError
from anisocert.geometry._pairs import paired
from anisocert.geometry._planes import crosspolytope_cuts, ellipsoid_cuts
from anisocert.geometry.region import FloatArray, Region
from anisocert.geometry.regions import Regions
from anisocert.geometry.relations import BODIES, disjoint, distance, stacked, touch_scale

# First relative cut below the touching size, and how it grows until the disjointness test proves the result.
_FIRST_CUT: Final = 1e-9
_GROWTH: Final = 10.0


class NoRoomError(ArgumentError):
    """No region of positive size around b's centre is provably disjoint from a: the centre lies in a, or almost."""


def shrink_outside(a: Region | Regions, b: Region, prefer: Literal["volume", "ball"] = "volume") -> Region:
    """Shrink b around its centre until it is proven disjoint from a, from all of them if a is many.

    The best of: a smaller copy of b; the l_p ball; b cut by planes between its centre and each region it meets.

    Args:
        a: one region or many.
        b: the region to shrink.
        prefer: what is best: the largest "volume", or the largest inscribed "ball" (then the largest volume).

    Returns:
        A region with b's centre inside b for which `disjoint` with each of a is True. It is b itself where that holds.

    Raises:
        NoRoomError: b.center lies in one of a, or so close to it that rounding leaves no positive size.
    """
    stack = stacked(a, b)
    if prefer not in ("volume", "ball"):
        raise ArgumentError(f"prefer: expected 'volume' or 'ball', got {prefer!r}")
    met = np.flatnonzero(~disjoint(stack, b))
    if not len(met):
        return b
    obstacles = stack[met]
    scales = touch_scale(obstacles, b)
    if not scales.min() > 0.0:
        raise NoRoomError(f"b: expected a centre outside a, got one inside region {met[scales.argmin()]} of a")
    # Nearest first: what is cut away for them often frees the region from the others too.
    obstacles = obstacles[np.argsort(scales, kind="stable")]
    best: FloatArray | None = None
    with np.errstate(all="ignore"):
        candidates = [axes for axes in _candidates(obstacles, b, scales, prefer) if axes.min() > 0.0]
    for axes in sorted(candidates, key=lambda axes: _merit(axes, prefer), reverse=True):
        if best is None or _merit(axes, prefer) > _merit(best, prefer):
            proven = _proven(stack, obstacles, Region(b.center, axes, b.norm))
            if proven is not None and (best is None or _merit(proven.axes, prefer) > _merit(best, prefer)):
                best = proven.axes
    if best is None:
        raise NoRoomError("b: expected a centre outside a, got one too close to it for any positive size")
    return Region(b.center, best, b.norm)


def _merit(axes: FloatArray, prefer: str) -> tuple[float, float]:
    """What is compared: for one centre and norm, volumes are in the order of the mean logarithm of the semi-axes."""
    return (0.0 if prefer == "volume" else float(axes.min()), float(np.log(axes).mean()))


def _candidates(obstacles: Regions, b: Region, scales: FloatArray, prefer: str) -> Iterator[FloatArray]:
    """Yield semi-axes of touching size: of the smaller copy of b, of the ball, and of b cut by planes."""
    yield b.axes * min(float(scales.min()), 1.0)
    yield np.full(b.shape, min(float(distance(obstacles, b.center).min()), b.radius))
    yield _cut_by_planes(obstacles, b, prefer)


def _cut_by_planes(obstacles: Regions, b: Region, prefer: str) -> FloatArray:
    """Semi-axes of b after cutting it by one plane per obstacle, in their order; those already cut off are skipped."""
    body, cuts = BODIES[b.norm], ellipsoid_cuts if b.norm == 2 else crosspolytope_cuts
    axes = b.axes.ravel()
    waiting, count = np.arange(len(obstacles)), 0
    while len(waiting):
        obstacle = obstacles[waiting[0]]
        separation, a = np.abs(obstacle.center - b.center).ravel(), obstacle.axes.ravel()
        scale, _ = body.touch(paired(separation[None], a[None], axes[None]))
        if scale[0] < 1.0:
            axes = max([axes * scale[0], *cuts(separation, a, axes)], key=lambda cut: _merit(cut, prefer))
        waiting, count = waiting[1:], count + 1
        # Asking all that wait after 1, 2, 4, ... cuts costs a few passes and spares most of them.
        if len(waiting) and count & (count - 1) == 0:
            current = Region(b.center, axes.reshape(b.shape), b.norm)
            waiting = waiting[~disjoint(obstacles[waiting], current)]
    return axes.reshape(b.shape)


def _proven(stack: Regions, obstacles: Regions, candidate: Region) -> Region | None:
    """The candidate, cut by the first of growing shares with which it is proven disjoint; None without one."""
    cut = _FIRST_CUT
    while cut < 1.0:
        axes = candidate.axes * (1.0 - cut)
        if not axes.min() > 0.0:
            return None
        smaller = Region(candidate.center, axes, candidate.norm)
        # The few obstacles first; the others were disjoint from the larger region and almost surely are from this one.
        if disjoint(obstacles, smaller).all() and disjoint(stack, smaller).all():
            return smaller
        cut *= _GROWTH
    return None
