"""Balls of other norms inside a region: what one certificate says about l1, l2 and l_inf changes at once."""

from __future__ import annotations

import math

from anisocert.errors import ArgumentError
from anisocert.geometry.region import Region, p_norm
from anisocert.rounding import down, error_of_sum


def inscribed_radius(region: Region, norm: float) -> float:
    """Radius, rounded down, of the largest l1 (1), l2 (2) or l_inf (math.inf) ball around the centre that lies inside.

    The gauge of an l_p region with semi-axes s is at most ||1/s||_t on the unit l_q ball, by Hoelder's inequality with
    1/t = 1/p - 1/q, and reaches it; for q <= p it is largest at a corner, where it is 1/min s.
    """
    if norm not in (1, 2, math.inf):
        raise ArgumentError(f"norm: expected 1, 2 or infinity, got {norm!r}")
    if norm <= region.norm:
        return region.radius
    power = 2 if (region.norm, norm) != (1, math.inf) else 1
    # In units of the smallest axis, so that nothing overflows; what underflows is below the margin of rounding.
    length = float(p_norm(region.radius / region.axes.ravel(), power))
    return float(down(region.radius / length * (1.0 - 2.0 * error_of_sum(region.dim))))
