"""Many regions of one norm, held as two arrays, so that one region can be compared with all of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, Final, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError
from anisocert.geometry.region import FloatArray, Region, check_axes, checked_array, checked_norm, checked_point, p_norm

# Coordinates handled at once: a handful of such float64 blocks stay in a processor's cache.
BLOCK: Final = 1 << 16


class Rows(Protocol):
    """Rows of numbers that are fetched on demand: `len`, one row by its number, or many by an array of numbers."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> NDArray[Any]: ...


class Regions:
    """M regions of one norm.

    Args:
        centers: `M x s`.
        axes: `M x s`, positive.
        norm: 2 for ellipsoids, 1 for cross-polytopes.

    float32 and float64 arrays are kept, not copied (unless their trailing dimensions are strided), and converted to
    float64 block by block. Construction reads both arrays once, to check them; whoever writes into them later keeps
    them valid. `regions[i]` is a Region; `regions[rows]`, with a slice, a mask or indices, is a Regions that shares the
    arrays.
    """

    def __init__(self, centers: ArrayLike, axes: ArrayLike, norm: int) -> None:
        middle, half = _as_float("centers", centers), _as_float("axes", axes)
        if middle.ndim == 0 or math.prod(middle.shape[1:]) == 0:
            raise ArgumentError(f"centers: expected an array of M points, M x shape, got shape {middle.shape}")
        if middle.shape != half.shape:
            raise ArgumentError(f"axes: expected the shape of centers, {middle.shape}, got {half.shape}")
        self.norm = checked_norm(norm)
        self.shape = middle.shape[1:]
        self.dim = math.prod(self.shape)
        self._centers: Rows = middle.reshape(len(middle), self.dim)
        self._axes: Rows = half.reshape(len(half), self.dim)
        self._rows: NDArray[np.intp] | None = None
        for _, some_centers, some_axes in self.blocks():
            checked_array("centers", some_centers)
            check_axes(checked_array("axes", some_axes))

    def __len__(self) -> int:
        return len(self._centers) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> Region: ...
    @overload
    def __getitem__(self, rows: slice | NDArray[Any]) -> Regions: ...
    def __getitem__(self, rows: int | np.integer[Any] | slice | NDArray[Any]) -> Region | Regions:
        if isinstance(rows, slice) or (isinstance(rows, np.ndarray) and rows.ndim == 1):
            # Only row numbers are kept: gathering them block by block never copies the whole arrays.
            return self.over(self._centers, self._axes, self._numbers()[rows], self.shape, self.norm)
        row = self._numbers()[operator.index(rows)]
        return Region(self._centers[row].reshape(self.shape), self._axes[row].reshape(self.shape), self.norm)

    def gauges(self, z: ArrayLike) -> FloatArray:
        """Gauge of one point in each region.

        Args:
            z: a point of shape `s`.

        Returns:
            M numbers; those up to 1 are the regions that contain z.
        """
        point, result = checked_point("z", z, self.shape), np.empty(len(self))
        with np.errstate(over="ignore"):
            for rows, centers, axes in self.blocks():
                result[rows] = p_norm(np.abs(centers - point.ravel()) / axes, self.norm)
        return result

    def blocks(self) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield (rows, centers, axes) a few rows at a time, flattened (`m x dim`) and in float64."""
        step = max(1, BLOCK // self.dim)
        if len(self) > step:
            _keep_freed_memory()
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            chosen = rows if self._rows is None else self._rows[rows]
            yield rows, self._centers[chosen].astype(float, copy=False), self._axes[chosen].astype(float, copy=False)

    @classmethod
    def of(cls, region: Region) -> Regions:
        """A stack of one, without checking again what a Region has checked."""
        return cls.over(region.center.reshape(1, -1), region.axes.reshape(1, -1), None, region.shape, region.norm)

    @classmethod
    def over(
        cls, centers: Rows, axes: Rows, rows: NDArray[np.intp] | None, shape: tuple[int, ...], norm: int
    ) -> Regions:
        """These rows (None: all) of a collection that was checked when it was filled; read in blocks, on demand."""
        stack = cls.__new__(cls)
        stack.norm, stack.shape, stack.dim = norm, shape, math.prod(shape)
        stack._centers, stack._axes, stack._rows = centers, axes, rows
        return stack

    def _numbers(self) -> NDArray[np.intp]:
        return np.arange(len(self._centers)) if self._rows is None else self._rows

    def __repr__(self) -> str:
        return f"Regions({len(self)} of norm={self.norm}, shape={self.shape})"


def _as_float(name: str, value: Any) -> NDArray[Any]:
    """The array itself if it is float32 or float64, else checked and converted to float64."""
    if isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64):
        return value
    return checked_array(name, value)


def _keep_freed_memory() -> None:
    """Let the C library reuse freed blocks instead of returning each to the system.

    glibc adapts: it keeps blocks up to the largest mapped one (of at most 32 MB) freed so far. Without one, each
    temporary array of a block is mapped and cleared anew, which takes longer than the arithmetic on it (a factor of 3).
    The memory is never touched, so this costs microseconds.
    """
    np.empty(30 << 17)
