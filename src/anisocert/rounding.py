"""How far rounded numbers may differ, rounding to the safe side, and round numbers. Shares are relative."""

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Real = TypeVar("Real", float, Floats, NDArray[np.float32])

TOLERANCE: Final = 1e-9
"""What recomputed numbers may differ by."""
PORTABLE: Final = 1e-13
"""What a claim may exceed the recomputed one by, because two machines' libraries differ in the last digits. Gaps are
rounded down by ten times as much, so that it stays a true claim; of a share near 1, which a gap magnifies, see
`portable`. Radii follow from gap and theta by products alone, which are the same everywhere: they get no allowance."""
UNIT_ROUNDOFF: Final = 2.0**-53
FINE: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""For `round_numbers`: more of them."""
# They cover the rounding of a noise's quantile function and of the difference of two of its values.
_GAP_MARGIN, _GAP_FLOOR = 1e-12, 1e-14


def round_numbers(near: float, units: Sequence[float] = (1, 2, 2.5, 5, 10)) -> list[float]:
    """Numbers to be read at a glance: these multiples of the power of ten at or below `near`, which is positive."""
    power = 10.0 ** np.floor(np.log10(near))
    return [float(power * unit) for unit in units]


def agrees(claimed: float, fresh: float, better: int = 1, *, less: float = TOLERANCE, more: float = PORTABLE) -> bool:
    """Whether a claim agrees with the recomputed number, and claims no more. better: -1 where smaller claims more."""
    return bool(-less * abs(fresh) <= better * (claimed - fresh) <= more * abs(fresh))


def portable(share: float) -> float:
    """`PORTABLE` for a claimed share, relative to it; near 1, of what is missing to 1, and two bits.

    With 100,000 votes or fewer a gap grows by less from that than it is rounded down.
    """
    return min(PORTABLE, (PORTABLE * min(share, 1 - share) + 2 * UNIT_ROUNDOFF) / share) if share > 0 else 0.0


def error_of_sum(dim: int) -> float:
    """Bound of the relative error of a sum of dim positive terms, each a product or quotient of a few numbers.

    A sum in any order is off by at most (dim - 1) unit roundoffs, and each term by fewer than the 32 added here.
    """
    return (dim + 32) * UNIT_ROUNDOFF


def gap_down(gap: Floats) -> Floats:
    """A gap below the computed one, by more than computing it can have erred; at least 0."""
    return np.maximum(gap * (1 - _GAP_MARGIN) - _GAP_FLOOR, 0.0)


def inwards(axes: Floats) -> Floats:
    """Semi-axes a little shorter: certified sets are open, regions closed."""
    return axes * (1 - 4 * np.finfo(float).eps)


def down(values: Real) -> Real:
    """Numbers of 0 or more, one step of their own precision smaller; 0 stays."""
    array = np.asarray(values)
    return np.nextafter(array, array.dtype.type(0))[()]  # type: ignore[no-any-return]


def up(values: Real) -> Real:
    """Numbers one step of their own precision larger."""
    array = np.asarray(values)
    return np.nextafter(array, array.dtype.type(np.inf))[()]  # type: ignore[no-any-return]


def float32_down(values: Floats) -> NDArray[np.float32]:
    """Positive numbers as the largest float32 that are no larger."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(0)), near)


def float32_up(values: Floats) -> NDArray[np.float32]:
    """Numbers as the smallest float32 that are no smaller, infinity where there is none."""
    near = values.astype(np.float32)
    return np.where(near < values, np.nextafter(near, np.float32(np.inf)), near)
