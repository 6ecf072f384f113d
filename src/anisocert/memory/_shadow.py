"""The coordinates of all centres in one projection, and which regions they cannot exclude."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anisocert.memory._float_rows import Floats
from anisocert.memory._projection import COORDINATE_ERROR, Projection
from anisocert.rounding import up

Numbers = NDArray[np.intp]

# Coordinates of all rows are compared up to this one, those of the survivors from there on.
_FIRST_LOOK: Final = 8
# Covers float32 sums of 65 squares (8e-6), and with _TINY what falls below float32's normal numbers.
_RELATIVE_ERROR: Final = 1e-4
_TINY: Final = np.float32(1e-37)


class Shadow:
    """Coordinates and reaches of up to `capacity` rows.

    One line per coordinate, so that comparing the first few reads only these.
    """

    def __init__(self, projection: Projection, capacity: int) -> None:
        self._projection = projection
        self._coordinates = np.zeros((len(projection.basis) + 1, capacity), np.float32)
        self._reach = np.zeros(capacity, np.float32)

    @property
    def capacity(self) -> int:
        """How many rows fit."""
        return len(self._reach)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._projection.nbytes + self._coordinates.nbytes + self._reach.nbytes

    def grown(self, capacity: int) -> Shadow:
        """A copy with more room."""
        larger = Shadow(self._projection, capacity)
        larger._coordinates[:, : self.capacity] = self._coordinates
        larger._reach[: self.capacity] = self._reach
        return larger

    def write(self, start: int, centers: Floats, longest: Floats) -> None:
        """Set rows from `start` on. centers: `m x dim`; longest: m enclosing radii."""
        rows = slice(start, start + len(centers))
        coordinates, sizes = self._projection(centers)
        self._coordinates[:, rows] = coordinates.T
        with np.errstate(over="ignore"):
            self._reach[rows] = _rounded_up(longest + COORDINATE_ERROR * sizes)

    def near(self, count: int, point: Floats, reach: float, only_containing: NDArray[np.bool_] | None) -> Numbers:
        """Those of the first `count` rows that may come within `reach` of the point.

        Args:
            count: how many rows there are.
            point: `dim`.
            reach: enclosing radius of a region around the point.
            only_containing: rows that are wanted only if they may contain the point itself, `count`.
        """
        coordinates, sizes = self._projection(point.reshape(1, -1))
        target, error = coordinates[0], COORDINATE_ERROR * float(sizes[0])
        with np.errstate(over="ignore", invalid="ignore"):
            limit = self._reach[:count] + _rounded_up(reach + error)
            if only_containing is not None:
                limit = np.where(only_containing, self._reach[:count] + _rounded_up(error), limit)
            limit *= limit * np.float32(1 + _RELATIVE_ERROR)
            limit += _TINY
            total = np.zeros(count, np.float32)
            for line, value in zip(self._coordinates[:_FIRST_LOOK, :count], target, strict=False):
                total += np.square(line - value)
            rows = np.flatnonzero(~_far(total, limit))
            rest = self._coordinates[_FIRST_LOOK:, rows] - target[_FIRST_LOOK:, None]
            total = total[rows] + np.square(rest).sum(axis=0)
            result: Numbers = rows[~_far(total, limit[rows])]
        return result


def _far(square: NDArray[np.float32], limit: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Where a squared distance is beyond the limit; an overflow says nothing."""
    far: NDArray[np.bool_] = (square > limit) & np.isfinite(square)
    return far


def _rounded_up(value: Any) -> Any:
    """float64 -> float32, never smaller."""
    return up(np.asarray(value).astype(np.float32))
