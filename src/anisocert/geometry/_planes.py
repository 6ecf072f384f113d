"""Planes between a region's centre and an obstacle A, and the largest region on the centre's side of one.

Any direction w with offset = w.(c_A - c_B) - support_A(w) > 0 separates c_B from A, wherever w came from, and the
largest axis-parallel region inside B on which w.(z - c_B) <= offset follows in closed form; what differs is how good w
is. All bodies here are symmetric in every coordinate, so only |w|, |y| and the semi-axes matter. Results have touching
size and carry no proof: the caller asks the disjointness test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from anisocert.geometry import _crosspolytope as crosspolytope
from anisocert.geometry import _ellipsoid as ellipsoid
from anisocert.geometry._pairs import paired
from anisocert.geometry.region import FloatArray, p_norm

_MOST_TURNS: Final = 8
# How far above its smallest possible value the multiplier of a cross-polytope's plane is tried.
_MULTIPLIERS: Final = np.geomspace(1.01, 1e4, 24)


def ellipsoid_cuts(separation: FloatArray, a: FloatArray, b: FloatArray) -> Iterator[FloatArray]:
    """Yield what is left of B by planes tangent to A where B, and where a ball, first touches it, and by rotated ones.

    The shape that a plane has left would, grown, touch A somewhere else. The tangent plane there leaves at least that
    grown shape, as far as it is inside B: so turning the plane never loses volume.

    Args:
        separation: |c_A - c_B|, d numbers.
        a: semi-axes of A, d numbers.
        b: semi-axes of B, d numbers.
    """
    for shape in (b, np.ones_like(b)):
        volume = -np.inf
        for _ in range(_MOST_TURNS):
            pairs = paired(separation[None], a[None], shape[None])
            _, multiplier = ellipsoid.touch(pairs)
            normal = (pairs.separation / (np.square(pairs.a) + multiplier[:, None] * np.square(pairs.b)))[0]
            normal /= normal.max()
            offset = float((normal * separation).sum()) - float(p_norm(normal * a, 2))
            if not offset > 0.0:
                break
            shape = _ellipsoid_beside(normal, offset, b)
            yield shape
            last, volume = volume, float(np.log(shape).mean())
            if volume - last < 1e-4:
                break


def _ellipsoid_beside(normal: FloatArray, offset: float, b: FloatArray) -> FloatArray:
    """Largest semi-axes s <= b with ||normal * s||_2 <= offset.

    Maximising sum log s_i gives s_i = min(b_i, c / w_i) with c from sum min(b_i w_i, c)^2 = offset^2: water-filling.
    """
    reach = normal * b / offset
    ordered = np.sort(reach)
    spent = np.concatenate([[0.0], np.cumsum(np.square(ordered))])
    if spent[-1] <= 1.0:
        return b
    # The k smallest reaches stay whole, the others share the rest: the first k whose share is not above the next one.
    level = np.sqrt(np.maximum(1.0 - spent[:-1], 0.0) / np.arange(len(ordered), 0, -1))
    return _capped(reach, float(level[np.argmax(level <= ordered)]), b)


def crosspolytope_cuts(separation: FloatArray, a: FloatArray, b: FloatArray) -> Iterator[FloatArray]:
    """Yield what is left of B by planes tangent to A where B, and where a ball, first touches it, and by steeper ones.

    Those tangent planes cut every coordinate. But a plane w with max w_i a_i = l may have any w_i up to l / a_i, and
    leaves b_i whole as long as w_i <= offset / b_i. In units in which the offset is 1 it must reach w.y = 1 + l:
    raising w_i from 1/b_i to l/a_i adds y_i (l/a_i - 1/b_i) and costs log(l b_i / a_i) of log-volume, so the
    coordinates that add most for their price are raised and all others stay whole.

    Args:
        separation: |c_A - c_B|, d numbers.
        a: semi-axes of A, d numbers.
        b: semi-axes of B, d numbers.
    """
    for shape in (b, np.ones_like(b)):
        pairs = paired(separation[None], a[None], shape[None])
        _, multiplier = crosspolytope.touch(pairs)
        normal = 1.0 / np.maximum(pairs.a, multiplier[:, None] * pairs.b)[0]
        # A coordinate in which the centres agree adds nothing to the offset: leave it whole.
        normal = np.where(separation > 0.0, normal / normal.max(), 0.0)
        offset = float((normal * separation).sum()) - float((normal * a).max())
        if offset > 0.0:
            yield _capped(normal * b / offset, 1.0, b)
    outside = float((separation / a).sum()) - 1.0
    if not outside > 0.0:
        return
    # Even with all coordinates raised the plane reaches l (1 + outside), which must be 1 + l.
    for multiplier in _MULTIPLIERS / outside:
        yield _steep_crosspolytope_cut(float(multiplier), separation, a, b)


def _steep_crosspolytope_cut(multiplier: float, separation: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """What the plane of one multiplier leaves of B."""
    raised = multiplier * b / a
    missing = 1.0 + multiplier - float((separation * np.minimum(raised, 1.0) / b).sum())
    coordinates = np.flatnonzero((raised > 1.0) & (separation > 0.0))
    gain = separation[coordinates] / b[coordinates] * (raised[coordinates] - 1.0)
    order = np.argsort(np.log(raised[coordinates]) / gain)
    coordinates, total = coordinates[order], np.cumsum(gain[order])
    count = int(np.searchsorted(total, missing)) + 1
    reach = np.zeros_like(b)
    reach[coordinates[:count]] = raised[coordinates[:count]]
    if 0 < count <= len(coordinates):
        # The last one is raised only as far as it must be.
        last = coordinates[count - 1]
        reach[last] = 1.0 + (missing - (total[count - 2] if count > 1 else 0.0)) * b[last] / separation[last]
    return _capped(reach, 1.0, b)


def _capped(reach: FloatArray, level: float, b: FloatArray) -> FloatArray:
    """Semi-axes b, shortened where reach = w b / offset is above a level to where it is that level."""
    return b * (level / np.maximum(reach, level))
