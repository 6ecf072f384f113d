"""Which stored regions can possibly meet a region or contain a point: exact, from memory, in steps.

1. A few coordinates of all centres and the enclosing radii exclude nearly all, at 1 % of the traffic (_shadow.py).
2. The distance of the centres and the enclosing radii: the paper's MaxIntersect.
3. What is left is tested by the vectorised geometry, on semi-axes rounded up to float32: larger regions, so what is
   excluded is excluded for good.
4. The few that remain are decided by the caller, on the float64 numbers of the store.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anisocert.geometry import Region, Regions, disjoint
from anisocert.geometry.region import p_norm
from anisocert.geometry.regions import BLOCK
from anisocert.memory._float_rows import FloatRows, Floats
from anisocert.memory._projection import MOST_DIRECTIONS, Projection
from anisocert.memory._shadow import Numbers, Shadow
from anisocert.rounding import UNIT_ROUNDOFF, error_of_sum

# From this many rows on they are projected. A new basis is fitted whenever there are four times as many as at the last
# one, so its cost is shared by all rows that came since.
_FIRST_FIT: Final = 64
_REFIT: Final = 4
_SAMPLE: Final = 512
# Numbers of a sample or of rows that are projected together: 512 rows of CIFAR-10's size, and 111 of ImageNet's, which
# are still more than there are directions.
_VALUES: Final = 1 << 24
# How far a gauge in float64 may be off, generously: what is below 1 after this share is left to an exact decision.
_GAUGE_ERROR: Final = 1e-6


class Index:
    """Rows 0, 1, ... of (number of an entry, class, region), in order of arrival.

    Args:
        shape: of an input.
        norm: of the regions.
    """

    def __init__(self, shape: tuple[int, ...], norm: int) -> None:
        self.shape, self.norm, self.dim = shape, norm, math.prod(shape)
        self._count = 0
        self._centers = FloatRows(self.dim, "exact")
        self._axes = FloatRows(self.dim, "up")  # of regions that are not balls
        self._entries = np.zeros(_FIRST_FIT, np.int64)
        self._classes = np.zeros(_FIRST_FIT, np.int64)
        self._longest = np.zeros(_FIRST_FIT)
        self._slots = np.zeros(_FIRST_FIT + 1, np.int64)  # rows of _axes that are used before each row
        self._shadow: Shadow | None = None
        self._next_fit = _FIRST_FIT

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of memory the rows take."""
        small = self._entries.nbytes + self._classes.nbytes + self._longest.nbytes + self._slots.nbytes
        return self._centers.nbytes + self._axes.nbytes + small + (self._shadow.nbytes if self._shadow else 0)

    def entries(self, rows: Numbers) -> list[int]:
        """Numbers of the entries in some rows."""
        return [int(number) for number in self._entries[rows]]

    def classes(self, rows: Numbers) -> NDArray[np.int64]:
        """Classes of some rows."""
        return self._classes[rows]

    def append(self, number: int, prediction: int, region: Region) -> None:
        """Add a row. It counts once everything about it is written: an interruption before that leaves no trace."""
        n = self._count
        self.truncate(n)
        self._make_room(n + 1)
        self._centers.append(region.center.ravel())
        ball = region.radius == region.enclosing_radius
        if not ball:
            self._axes.append(region.axes.ravel())
        self._entries[n], self._classes[n] = number, prediction
        self._longest[n], self._slots[n + 1] = region.enclosing_radius, len(self._axes)
        if self._shadow is not None:
            self._shadow.write(n, region.center.reshape(1, -1), self._longest[n : n + 1])
        if n + 1 >= self._next_fit:
            self._fit(n + 1)
        self._count = n + 1

    def truncate(self, count: int) -> None:
        """Forget all rows but the first `count`."""
        self._count = count
        self._centers.truncate(count)
        self._axes.truncate(int(self._slots[count]))

    def _make_room(self, rows: int) -> None:
        if rows > len(self._classes):
            self._slots = np.resize(self._slots, 2 * rows + 1)
            self._longest = np.resize(self._longest, 2 * rows)
            self._entries = np.resize(self._entries, 2 * rows)
            self._classes = np.resize(self._classes, 2 * rows)
        if self._shadow is not None and rows > self._shadow.capacity:
            self._shadow = self._shadow.grown(2 * rows)

    def _fit(self, n: int) -> None:
        self._next_fit = _REFIT * n
        most = min(_SAMPLE, max(_VALUES // self.dim, MOST_DIRECTIONS))
        sample = np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))
        shadow = Shadow(Projection.of(self._centers[sample]), len(self._classes))
        for start in range(0, n, most):
            rows = np.arange(start, min(start + most, n))
            shadow.write(start, self._centers[rows], self._longest[rows])
        # One assignment: not even an interruption may mix coordinates of two bases.
        self._shadow = shadow

    def near(self, point: Floats, reach: float = 0.0, own: int | None = None) -> Numbers:
        """Rows whose region may contain the point or, except for class `own`, come within `reach` of it.

        Args:
            point: of the input's shape.
            reach: enclosing radius of a region around the point.
            own: the class whose regions need not be kept apart from that region.
        """
        same_class = None if own is None else self._classes[: self._count] == own
        if self._shadow is None:
            rows = np.arange(self._count)
        else:
            rows = self._shadow.near(self._count, point, reach, same_class)
        bound = self._longest[rows] + (reach if same_class is None else np.where(same_class[rows], 0.0, reach))
        error, far = error_of_sum(self.dim), np.zeros(len(rows), bool)
        step = max(1, BLOCK // self.dim)
        with np.errstate(over="ignore"):
            for start in range(0, len(rows), step):
                block = slice(start, start + step)
                length = p_norm(np.abs(self._centers[rows[block]] - point.reshape(1, -1)), self.norm)
                far[block] = (length * (1.0 - error) > bound[block] * (1.0 + 4.0 * UNIT_ROUNDOFF)) & np.isfinite(length)
        return rows[~far]

    def containing(self, point: Floats, among: Numbers) -> Numbers:
        """Those rows that may contain the point: all that do, and perhaps some that nearly do."""
        if not len(among):
            return among
        result: Numbers = among[self.regions(among).gauges(point) <= 1.0 + _GAUGE_ERROR]
        return result

    def meeting(self, region: Region, own: int, among: Numbers) -> Numbers:
        """Those rows of other classes than `own` that are not proven disjoint from the region."""
        rows: Numbers = among[self._classes[among] != own]
        if len(rows):
            rows = rows[~disjoint(self.regions(rows), region)]
        return rows

    def regions(self, rows: Numbers) -> Regions:
        """The regions of some rows, with semi-axes rounded up."""
        return Regions.over(self._centers, _Axes(self), rows, self.shape, self.norm)

    def _axes_of(self, rows: Numbers) -> Floats:
        slots = self._slots[rows]
        shaped = self._slots[rows + 1] > slots
        if shaped.all():
            return self._axes[slots]
        axes = np.repeat(self._longest[rows][:, None], self.dim, axis=1)
        axes[shaped] = self._axes[slots[shaped]]
        return axes


class _Axes:
    """The semi-axes of an index, as the rows that Regions reads."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        axes = self._index._axes_of(np.atleast_1d(np.asarray(rows)))
        return axes if np.ndim(rows) else axes[0]
