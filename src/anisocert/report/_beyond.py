"""A changed input that the shaped region covers and no ball does (ANCER, Fig. 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anisocert.geometry import Region
from anisocert.geometry.region import p_norm

GAUGE = 0.98  # how deep inside: near the border, and safely not beyond it
POWERS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, np.inf)


@dataclass(frozen=True, eq=False)
class Beyond:
    """point: inside the region, at a distance `length` from its centre that is above the ball's radius."""

    point: NDArray[np.float64]
    length: float
    gauge: float


def beyond_ball(
    region: Region, radius: float, domain: tuple[float, float] | None = None, seed: int = 0
) -> Beyond | None:
    """A point of the region outside the ball of this radius around its centre; None if none is found.

    The change is spread over as many coordinates as possible, and favours the tolerant ones only as far as needed.
    domain: values stay inside it where the sign of the change allows it.
    """
    axes, center = region.axes.reshape(-1), region.center.reshape(-1)
    sign = np.random.default_rng(seed).choice([-1.0, 1.0], axes.size)
    for power in POWERS:
        weight = (axes / axes.max()) ** power  # at infinity: the longest axes alone
        step = GAUGE * axes * weight / p_norm(weight, region.norm)
        direction = sign if domain is None else _inwards(center, step, sign, domain)
        point = (center + direction * step).reshape(region.shape)
        length = float(p_norm(np.abs(point.reshape(-1) - center), region.norm))
        gauge = region.gauge(point)
        if length > radius and gauge < 1:
            return Beyond(point, length, gauge)
    return None


def _inwards(
    center: NDArray[np.float64], step: NDArray[np.float64], sign: NDArray[np.float64], domain: tuple[float, float]
) -> NDArray[np.float64]:
    low, high = domain
    moved = center + sign * step
    outside = (moved < low) | (moved > high)
    return np.where(outside, np.where(center > (low + high) / 2, -1.0, 1.0), sign)
