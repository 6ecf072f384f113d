"""Noise on a grid, drawn from its true distribution (SPEC section 9).

What is certified is f o Q: Q rounds every coordinate to the nearest multiple k h of the grid's step h, and f is
whatever the machine computes from it, the rounding of k h to float32 included (exact below 2^24 steps). So a vote needs
k alone, and k is drawn exactly: 64 uniform bits m stand for U = (m + 1/2) / 2^64, eps is the noise's quantile of U, and
k = round((x + theta eps) / h).

Float64 finds k unless (x + theta eps) / h is so close to a border between two cells that its error may matter; there k
is settled in exact arithmetic. The error: x, theta and h are exact, and division by h, a power of two, is too. U is
rounded from the nearer tail, to a relative 2^-53, which moves eps by less than 2^-52. The quantile functions are not
proven: Cephes' (scipy's) is documented to a relative 7.2e-16, and the largest error found against exact values is
2^-51.4 (1 + |eps|); the tests fail from 2^-50 (1 + |eps|) on, for CUDA's normcdfinv from 2^-49 on. Product and sum
round to 2^-53 of theirs. MARGIN allows 2^-44 (1 + |eps|) for eps and product together, 32 times as much as the tests
do, and MARGIN_X 2^-50 of |x| for the sum.

What remains is that U has 2^64 values: `grain` bounds it.
"""

import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from anisocert.errors import AnisocertWarning, ArgumentError

Base = Literal["normal", "uniform"]
GRID = 2.0**-12  # far below a step of 8-bit pixels
LONGEST = 2.0**30  # steps: beyond, a sizeable part of all coordinates would need exact arithmetic
COARSE = 64  # steps
MARGIN, MARGIN_X = 2.0**-44, 2.0**-50
REACH = {"normal": 9.2, "uniform": 1.0}  # of |eps|: the quantile of 2^-65 is -9.16


def check_grid(grid: float) -> None:
    """An error unless a grid's step is a power of two that float64 divides by exactly, or 0: no grid."""
    number = isinstance(grid, int | float) and not isinstance(grid, bool)
    if not number or (grid != 0 and not (2.0**-40 <= grid <= 2.0**40 and math.frexp(grid)[0] == 0.5)):
        raise ArgumentError(f"expected grid a power of two from 2**-40 to 2**40, or 0 for none, got {grid!r}")


def check_range(largest: float, grid: float) -> None:
    """An error where inputs and noise of this size cannot be drawn on a grid in good time."""
    if not largest / grid <= LONGEST:
        raise ArgumentError(
            f"expected inputs and noise within 2**30 steps of the grid, {LONGEST * grid:g}, got {largest:g}: "
            "choose a larger grid"
        )


def warn_if_coarse(theta: NDArray[np.float32] | float, grid: float) -> None:
    """Say so where a grid rounds much of the noise away."""
    if float(np.min(theta)) < COARSE * grid:
        warnings.warn(
            f"expected noise of at least {COARSE} steps of the grid, {COARSE * grid:g}, got {float(np.min(theta)):g}: "
            "choose a smaller grid",
            AnisocertWarning,
            stacklevel=3,
        )


def multiples(
    words: NDArray[np.int64], x: NDArray[np.float64], scale: NDArray[np.float64], grid: float, base: Base
) -> NDArray[np.float64]:
    """k for each word: `rows x d`. x: `d`; scale: `d` or `rows x d`; words: 64 uniform bits, as signed numbers."""
    tail = (words ^ (words >> 63)).astype(np.float64)  # m in the lower half, 2^64 - 1 - m in the upper (signed) one
    tail += 0.5
    tail *= 2.0**-64
    eps = ndtri(tail, out=tail) if base == "normal" else np.subtract(tail * 2, 1, out=tail)
    np.negative(eps, out=eps, where=words < 0)
    place = np.multiply(eps, scale / grid, out=eps)
    place += x / grid
    k: NDArray[np.float64] = np.rint(place)
    place -= k
    margin = (float(scale.max()) * (1 + REACH[base]) * MARGIN + float(np.abs(x).max()) * MARGIN_X) / grid
    for row, i in zip(*np.nonzero(np.abs(place, out=place) > 0.5 - margin), strict=True):
        one = scale[i] if scale.ndim == 1 else scale[row, i]
        k[row, i] = settled(int(words[row, i]), float(x[i]), float(one), grid, base, int(k[row, i]))
    return k


def settled(word: int, x: float, scale: float, grid: float, base: Base, near: int) -> int:
    """k for one word in exact arithmetic, searched from a near one."""
    u = Fraction(2 * (word % 2**64) + 1, 2**65)

    def left_of(k: int) -> bool:
        """Whether U lies below the cell of k."""
        return _below(u, ((k - Fraction(1, 2)) * Fraction(grid) - Fraction(x)) / Fraction(scale), base)

    while left_of(near):
        near -= 1
    while not left_of(near + 1):
        near += 1
    return near


def _below(u: Fraction, t: Fraction, base: Base) -> bool:
    """Whether u < P(eps < t)."""
    if base == "uniform":
        return u < (t + 1) / 2
    import mpmath  # torch brings it, through sympy; 1e-9 of all coordinates come here

    digits = 40
    while True:
        with mpmath.workdps(digits):
            ahead = mpmath.ncdf(mpmath.mpf(t.numerator) / t.denominator) - mpmath.mpf(u.numerator) / u.denominator
            if abs(ahead) > mpmath.mpf(10) ** (10 - digits):
                return bool(ahead > 0)
        digits *= 2


def thresholds(weights: Sequence[float]) -> NDArray[np.int64]:
    """A mixture's component is the number of these that a word, as a signed number, is not below."""
    total, found = Fraction(0), []
    for weight in weights[:-1]:
        total += Fraction(weight)
        found.append(min(round(total * 2**64), 2**64 - 1) - 2**63)
    return np.array(found, np.int64)


def grain(scales: NDArray[np.float32], shape: Sequence[int], votes: int, grid: float, base: Base) -> float:
    """Total variation between so many votes of one input as drawn and of the real noise, rounded up; 0 without a grid.

    scales: `j x *shape`, or broadcastable to it. At each border between cells the distribution function of the drawn k
    is off by at most 2^-65, so that a cell's probability is by 2^-64; a coordinate reaches 2 reach scale / h cells and
    one more at each end, and what lies beyond them counts as another. Of a mixture one component is drawn per vote,
    whose probability is off by 2^-64, and the widest bounds them all.
    """
    if grid == 0:
        return 0.0
    widest, size = np.asarray(scales, np.float64).max(0), math.prod(shape)
    cells = 2 * REACH[base] / grid * float(widest.mean()) * size + 3.0 * size + len(scales)
    return float(cells * votes * 2.0**-64 * (1 + 1e-9))
