"""Whether a point lies in a region, decided exactly, even where float64 cannot tell."""

from __future__ import annotations

from fractions import Fraction

from anisocert.geometry import Region
from anisocert.memory._float_rows import Floats
from anisocert.rounding import error_of_sum


def inside(region: Region, point: Floats) -> bool:
    """Whether the point lies in the closed region. point: of the region's shape."""
    gauge, error = region.gauge(point), 4.0 * error_of_sum(region.dim)
    if abs(gauge - 1.0) > error:
        return gauge < 1.0
    return _gauge_at_most_1(region, point)


def _gauge_at_most_1(region: Region, point: Floats) -> bool:
    """The sum of |z_i - c_i| / s_i, or of its squares, in rational numbers; a second at worst at 3072 coordinates."""
    terms = []
    for z, c, s in zip(point.flat, region.center.flat, region.axes.flat, strict=True):
        ratio = abs(Fraction(z) - Fraction(c)) / Fraction(s)
        terms.append((ratio**region.norm).as_integer_ratio())
    # Pairs of terms, then pairs of pairs, without reducing: the numbers stay as short as they can be, cheaply.
    while len(terms) > 1:
        odd = [terms.pop()] if len(terms) % 2 else []
        halves = zip(terms[::2], terms[1::2], strict=True)
        terms = [(n * e + m * d, d * e) for (n, d), (m, e) in halves] + odd
    numerator, denominator = terms[0]
    return numerator <= denominator
