"""Whether a point lies in a region, decided exactly, even where float64 cannot tell.

A client that knows a region can ask about points as near to its boundary as numbers allow, and all others wait for
the answer. So sums of twice float64's digits come first. Exact sums of fractions are the last resort: their
denominators have millions of digits.
"""

from __future__ import annotations

from collections import Counter
from math import gcd

from anisocert.geometry import Region
from anisocert.memory import _twice
from anisocert.memory._float_rows import Floats
from anisocert.rounding import error_of_sum

BITS = (128, 1024, 16384)  # after the binary point


def inside(region: Region, point: Floats) -> bool:
    """Whether the point lies in the closed region. point: of the region's shape."""
    gauge, error = region.gauge(point), 4.0 * error_of_sum(region.dim)
    if abs(gauge - 1.0) > error:
        return gauge < 1.0
    verdict = _twice.inside(region, point)
    return _gauge_at_most_1(region, point) if verdict is None else verdict


def _gauge_at_most_1(region: Region, point: Floats) -> bool:
    """The sum of |z_i - c_i| / s_i, or of its squares, in integers; some seconds at worst at 3x224x224 coordinates."""
    z, c, s = _in_one_unit(point, region.center, region.axes)
    sums = Counter[int]()  # of the numerators, for each denominator: a ball has one
    for a, b, axis in zip(z, c, s, strict=True):
        if a != b:
            sums[axis] += abs(a - b) ** region.norm
    terms = [(total, axis**region.norm) for axis, total in sums.items()]
    for bits in BITS:
        low = sum((numerator << bits) // denominator for numerator, denominator in terms)  # each by less than 1 too low
        if low > 1 << bits:
            return False
        if low + len(terms) <= 1 << bits:
            return True
    return _sum_at_most_1(terms)


def _in_one_unit(*arrays: Floats) -> list[list[int]]:
    """Multiples of the largest power of two of which all these numbers are."""
    ratios = [[value.as_integer_ratio() for value in array.ravel().tolist()] for array in arrays]
    unit = max(denominator for pairs in ratios for _, denominator in pairs)
    return [[numerator * (unit // denominator) for numerator, denominator in pairs] for pairs in ratios]


def _sum_at_most_1(terms: list[tuple[int, int]]) -> bool:
    sums = Counter[int]()
    for numerator, denominator in terms:  # reduced, most of those that add up to exactly 1 have few denominators
        common = gcd(numerator, denominator)
        sums[denominator // common] += numerator // common
    fractions = [(numerator, denominator) for denominator, numerator in sums.items()]
    # Pairs, then pairs of pairs, without reducing: the numbers stay as short as they can be, cheaply.
    while len(fractions) > 1:
        odd = [fractions.pop()] if len(fractions) % 2 else []
        halves = zip(fractions[::2], fractions[1::2], strict=True)
        fractions = [(n * e + m * d, d * e) for (n, d), (m, e) in halves] + odd
    return all(numerator <= denominator for numerator, denominator in fractions)
