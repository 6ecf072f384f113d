"""Pairs of regions in coordinates in which squares neither overflow nor underflow.

All questions about two regions A and B of one norm depend only on the separation |c_B - c_A| and their semi-axes a, b,
and no answer decreases as the separation grows or axes shrink. So a separation may be rounded down and axes up without
ever being optimistic, which this file does where a float64 cannot hold the exact number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anisocert.geometry.region import FloatArray
from anisocert.rounding import error_of_sum

# An axis shorter than this share of its region's longest one is treated as if it were that long.
_SHORTEST: Final = 2.0**-200
# A region smaller than this share of the separation is treated as if it were that large.
_FARTHEST: Final = 2.0**-300
_LARGEST_SCALE: Final = np.finfo(float).max


@dataclass(frozen=True)
class Pairs:
    """n pairs (A, B): separation and a in units of 2**shift times the unit of b; all axes in [2**-200, 1].

    Shapes: separation and a `n x d`; b `n x d` or, one for all, `1 x d`; shift `n`.
    """

    separation: FloatArray
    a: FloatArray
    b: FloatArray
    shift: NDArray[np.intc]

    def __len__(self) -> int:
        return len(self.separation)

    @property
    def rounding(self) -> float:
        """Bound of the relative error of a sum over the coordinates."""
        return error_of_sum(self.separation.shape[1])

    def __getitem__(self, keep: NDArray[Any]) -> Pairs:
        b = self.b if len(self.b) == 1 else self.b[keep]
        return Pairs(self.separation[keep], self.a[keep], b, self.shift[keep])

    def in_units_of_b(self, gauge: FloatArray) -> FloatArray:
        """Gauge of the scaled B -> gauge of the B that was asked about, at most the largest float64."""
        with np.errstate(over="ignore"):
            return np.minimum(np.ldexp(gauge, self.shift), _LARGEST_SCALE)


def paired(separation: FloatArray, a: FloatArray, b: FloatArray) -> Pairs:
    """Scale n pairs by powers of two.

    Args:
        separation: |c_B - c_A|, `n x d`.
        a: semi-axes of A, `n x d` or `1 x d`.
        b: semi-axes of B, `n x d` or `1 x d`.
    """
    unit_a = _exponent(np.maximum(a.max(axis=1), _FARTHEST * separation.max(axis=1)))
    unit_b = _exponent(b.max(axis=1))
    factor = np.ldexp(1.0, -unit_a)[:, None]
    b = b * np.ldexp(1.0, -unit_b)[:, None]
    return Pairs(separation * factor, _floored(a * factor), _floored(b), unit_a - unit_b)


def _exponent(longest: FloatArray) -> NDArray[np.intc]:
    """Smallest e with longest < 2**e, kept where 2**-e is a float64."""
    exponent: NDArray[np.intc] = np.maximum(np.frexp(longest)[1], -960)
    return exponent


def _floored(axes: FloatArray) -> FloatArray:
    # The test is cheaper than the maximum, and almost never true.
    return np.maximum(axes, _SHORTEST) if axes.min() < _SHORTEST else axes
