"""Noise on a grid, drawn from its exact distribution (docs/guarantees.md, Floating point).

What is certified is f o Q: Q rounds every coordinate to the nearest multiple k h of the grid's step h, and f is
whatever the machine computes from it, the rounding of k h to float32 included (exact below 2^24 steps). So a vote needs
k alone: k = round((x + theta eps) / h), where eps is the noise's quantile of a uniform U. 64 random bits m say that U
lies in [m, m + 1) / 2^64. Nearly always all of that interval gives one k; where a border between two cells lies inside
it, further words say where in it U lies, until k is decided. So k is that of a U with all its digits.

Float64 finds k unless (x + theta eps) / h, at the middle of the interval, is so close to a border that its error or the
rest of the interval may matter; there k is settled in exact arithmetic. The error: x, theta and h are exact, and
division by h, a power of two, is too. U is rounded from the nearer tail, to a relative 2^-53, which moves eps by less
than 2^-52. The quantile functions are not proven: Cephes' (scipy's) is documented to a relative 7.2e-16, and the
largest error found against exact values is 2^-51.4 (1 + |eps|); the tests fail from 2^-50 (1 + |eps|) on, for CUDA's
normcdfinv from 2^-49 on. Product and sum round to 2^-53 of theirs. The interval reaches 2^-65 to either side of its
middle, which is at most 2^-49.8 (1 + |eps|) of normal noise where the nearer tail is at least 2^-20, and 2^-64 of
uniform noise; words nearer to 0 or 1, one in 2^19, are settled in exact arithmetic. MARGIN allows 2^-44 (1 + |eps|)
for eps, product and interval together, 20 times as much as the tests and the interval take, and MARGIN_X 2^-50 of |x|
for the sum.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from anisocert.errors import AnisocertWarning, ArgumentError

Base = Literal["normal", "uniform"]
Further = Callable[[int, int], Iterator[int]]
"""Further words, 64 random bits each, by a coordinate's row and place in it."""
GRID = 2.0**-12  # far below a step of 8-bit pixels
LONGEST = 2.0**30  # steps: beyond, a sizeable part of all coordinates would need exact arithmetic
COARSE = 64  # steps
MARGIN, MARGIN_X = 2.0**-44, 2.0**-50
FAR = 2**44  # words from 0 or 1, within which an interval's quantiles are far apart
REACH = {"normal": 9.2, "uniform": 1.0}  # of |eps| in float64: the quantile of 2^-65 is -9.16


def check_grid(grid: float) -> None:
    """An error unless a grid's step is a power of two that float64 divides by exactly, or 0: no grid."""
    number = isinstance(grid, int | float) and not isinstance(grid, bool)
    if not number or (grid != 0 and not (2.0**-40 <= grid <= 2.0**40 and math.frexp(grid)[0] == 0.5)):
        raise ArgumentError(f"expected grid a power of two from 2**-40 to 2**40, or 0 for none, got {grid!r}")


def check_range(largest: float, grid: float) -> None:
    """An error where inputs and noise of this size cannot be drawn on a grid in good time."""
    if not largest / grid <= LONGEST:
        wider = 2.0 ** math.ceil(math.log2(largest / LONGEST)) if math.isfinite(largest) else math.inf
        larger = f"choose a larger one, as in --grid {wider!r} (numerics=ac.Numerics(grid={wider!r})), or "
        raise ArgumentError(
            f"expected inputs and noise within 2**30 steps of the grid, {LONGEST * grid:g}, got {largest:g}: "
            f"{larger if wider <= 2.0**40 else ''}standardise the inputs, for the network too"
        )


def fitting(theta: float, grid: float) -> float:
    """The step of a grid, or a finer one where noise of this theta has too few of that."""
    return grid if theta >= COARSE * grid else 2.0 ** math.floor(math.log2(theta / COARSE))


def warn_if_coarse(least: float, grid: float) -> None:
    """Say so where a grid rounds much of the smallest noise away."""
    if (finer := fitting(least, grid)) != grid:
        warnings.warn(
            f"expected noise of at least {COARSE} steps of the grid, {COARSE * grid:g}, got {least:g}: "
            f"choose a smaller one, as in --grid {finer!r} (numerics=ac.Numerics(grid={finer!r}))",
            AnisocertWarning,
            stacklevel=3,
        )


def multiples(
    words: NDArray[np.int64],
    x: NDArray[np.float64],
    scale: NDArray[np.float64],
    grid: float,
    base: Base,
    further: Further,
) -> NDArray[np.float64]:
    """k for each word: `rows x d`. x: `d`; scale: `d` or `rows x d`; words: 64 random bits, as signed numbers."""
    ends = words ^ (words >> 63)  # words from the nearer end: m in the lower half, 2^64 - 1 - m in the upper (signed)
    far = ends < FAR
    tail = ends.astype(np.float64)
    tail += 0.5
    tail *= 2.0**-64
    eps = ndtri(tail, out=tail) if base == "normal" else np.subtract(tail * 2, 1, out=tail)
    np.negative(eps, out=eps, where=words < 0)
    place = np.multiply(eps, scale / grid, out=eps)
    place += x / grid
    k: NDArray[np.float64] = np.rint(place)
    place -= k
    k += 0.0  # -0.0 becomes 0.0: a network may tell them apart
    margin = (float(scale.max()) * (1 + REACH[base]) * MARGIN + float(np.abs(x).max()) * MARGIN_X) / grid
    for row, i in np.argwhere((np.abs(place, out=place) > 0.5 - margin) | far).tolist():
        cells = Cells(float(x[i]), float(scale[i] if scale.ndim == 1 else scale[row, i]), grid, base)
        k[row, i] = settled(chain([int(words[row, i]) % 2**64], further(row, i)), cells)
    return k


@dataclass(frozen=True)
class Cells:
    """The multiples that one coordinate's noise may give, in exact arithmetic."""

    x: float
    scale: float
    grid: float
    base: Base

    def near(self, u: Fraction) -> int:
        """k at U = u, or one close to it: in float64."""
        tail = float(min(u, 1 - u))
        eps = float(ndtri(tail)) if self.base == "normal" else 2 * tail - 1
        return round((self.x + self.scale * (eps if 2 * u < 1 else -eps)) / self.grid)

    def side(self, k: int, u: Fraction) -> int:
        """The sign of P - u, where U is below P = P(eps < t) for multiples below k, and at least P for k and above."""
        t = ((k - Fraction(1, 2)) * Fraction(self.grid) - Fraction(self.x)) / Fraction(self.scale)
        if self.base == "uniform" or t == 0:
            return _sign((t + 1) / 2 - u)
        if not 0 < u < 1:
            return 1 if u <= 0 else -1
        import mpmath  # late: 2e-6 of all coordinates come here

        digits = 40
        while True:
            with mpmath.workdps(digits):
                ahead = mpmath.ncdf(mpmath.mpf(t.numerator) / t.denominator) - mpmath.mpf(u.numerator) / u.denominator
                if abs(ahead) > mpmath.mpf(10) ** (10 - digits):
                    return _sign(ahead)
            digits *= 2


def settled(words: Iterator[int], cells: Cells, bits: int = 64) -> int:
    """k of the U whose binary digits are those of words, one after another; takes as many as decide it."""
    low, size = 0, 1
    while True:
        low, size = low << bits | next(words), size << bits
        first, last = Fraction(low, size), Fraction(low + 1, size)
        k = cells.near((first + last) / 2)
        while cells.side(k, last) >= 0:
            k -= 1
        while cells.side(k + 1, first) <= 0:
            k += 1
        if cells.side(k, first) <= 0 <= cells.side(k + 1, last):
            return k


def _sign(number: Any) -> int:
    return int(number > 0) - int(number < 0)


def thresholds(weights: Sequence[float]) -> NDArray[np.int64]:
    """A mixture's component is the number of these that a word, as a signed number, is not below."""
    total, cuts = Fraction(0), []
    for weight in weights[:-1]:
        total += Fraction(weight)
        cuts.append(min(round(total * 2**64), 2**64 - 1) - 2**63)
    return np.array(cuts, np.int64)
