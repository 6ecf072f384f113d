"""Whether a point lies in a region, in about 100 bits: enough for all but points chosen with great care, at no wait.

Errors of sums, products and quotients of floats are floats themselves (Knuth; Dekker), unless something overflows or
underflows: `USUAL` numbers are far from both.
"""

from __future__ import annotations

from math import fsum
from typing import Final

import numpy as np

from anisocert.geometry import Region
from anisocert.memory._float_rows import Floats

USUAL: Final = 2.0**400  # the largest number here; axes are no smaller than its inverse
ERROR: Final = 2.0**-98
"""Of a sum below 2, so many times the number of its terms at most: each is off by less than 2^-100 of itself, and
2^-600; and the small halves, together below 2^-50, are added with float64's errors."""
SPLIT: Final = 2.0**27 + 1


def inside(region: Region, point: Floats) -> bool | None:
    """Whether the point, near the boundary, lies in the region; None if that is left open."""
    z, c, s = (np.asarray(array, np.float64).ravel() for array in (point, region.center, region.axes))
    if max(np.abs(z).max(), np.abs(c).max(), s.max(), 1 / s.min()) > USUAL:
        return None
    difference, error = _difference(z, c)
    quotient = difference / s
    product, rest = _product(quotient, s)
    below = ((difference - product) - rest + error) / s  # (z - c) / s is quotient + below, to 100 bits
    if region.norm == 1:
        large, small = np.abs(quotient), np.sign(quotient) * below
    else:
        large, lost = _product(quotient, quotient)
        small = lost + (2 * quotient + below) * below
    over = fsum([-1.0, *large.tolist(), float(small.sum())])  # rounded once
    return None if abs(over) < (region.dim + 32) * ERROR else over < 0


def _difference(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a - b, and what rounding took from it: the two add up to it."""
    difference = a - b
    back = difference - a
    return difference, (a - (difference - back)) - (b + back)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a * b, and what rounding took from it."""
    product, (a_high, a_low), (b_high, b_low) = a * b, _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: Floats) -> tuple[Floats, Floats]:
    """The leading half of the digits, and the others."""
    high = SPLIT * a
    high -= high - a
    return high, a - high
