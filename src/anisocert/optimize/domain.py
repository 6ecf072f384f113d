"""The box of valid inputs, and how much of a region lies in it."""

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from anisocert.errors import ArgumentError
from anisocert.inputs import told
from anisocert.optimize._pilot import Floats
from anisocert.rounding import float32_up

Domain = tuple[float, float]
"""(low, high): the range of every coordinate."""


def check_domain(domain: tuple[float, ...], x: Tensor | NDArray[np.float32] | None = None) -> None:
    """An error unless it is a range, which inputs, if given, lie in."""
    if not isinstance(domain, tuple | list):
        raise ArgumentError(f"expected domain as two numbers, as in (0.0, 1.0), got {told(domain)}")
    if len(domain) != 2 or not all(map(math.isfinite, domain)) or not domain[0] < domain[1]:
        raise ArgumentError(f"expected domain as two numbers, low < high, got {','.join(map(str, domain))}")
    low, high = domain
    if x is not None and not (float(x.min()) >= low and float(x.max()) <= high):
        raise ArgumentError(
            f"expected inputs in their domain, {low:g} to {high:g}, got values from {float(x.min()):g} to "
            f"{float(x.max()):g}: give the domain in the units of the network's input"
        )


def inner(domain: Domain) -> Domain:
    """The smallest and the largest float32 in it."""
    low, negative_high = float32_up(np.array([domain[0], -domain[1]]))
    return float(low), -float(negative_high)


def proxy_inside(theta: Tensor, gap: Floats, x: Tensor, domain: Domain) -> Floats:
    """`Region.proxy_radius_inside` of candidates. theta: `b x c x ...`; gap: `b x c`; x: `b x ...` -> `b x c`."""
    low, high = domain
    axes = theta.flatten(2).double().cpu().numpy() * gap[..., None]
    center = x.flatten(1).double().cpu().numpy()[:, None]
    sides = np.minimum(center + axes, high) - np.maximum(center - axes, low)
    with np.errstate(divide="ignore"):
        mean: Floats = np.exp(np.log(sides / 2).mean(2))
    return mean
