"""One region: an axis-parallel ellipsoid (norm 2) or cross-polytope (norm 1) around an input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError

FloatArray = NDArray[np.float64]

# Beyond this a difference of two centres could overflow; no input has such units.
LARGEST: Final = 1e300


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Region:
    """The closed set {z : ||(z - center) / axes||_norm <= 1}.

    Args:
        center: the point the region is around, any shape `s`.
        axes: positive semi-axes, shape `s`, or one number for all of them (a ball).
        norm: 2 for an ellipsoid, 1 for a cross-polytope.

    Both arrays are copied to read-only float64; lists and CPU tensors are accepted.
    """

    center: FloatArray
    axes: FloatArray
    norm: int

    def __init__(self, center: ArrayLike, axes: ArrayLike, norm: int) -> None:
        middle = checked_array("center", center).copy()
        half = checked_array("axes", axes)
        if half.ndim and half.shape != middle.shape:
            raise ArgumentError(f"axes: expected the shape of center, {middle.shape}, or a scalar, got {half.shape}")
        if middle.size == 0:
            raise ArgumentError(f"center: expected at least one coordinate, got shape {middle.shape}")
        check_axes(half)
        half = np.broadcast_to(half, middle.shape).copy()
        middle.flags.writeable = half.flags.writeable = False
        object.__setattr__(self, "center", middle)
        object.__setattr__(self, "axes", half)
        object.__setattr__(self, "norm", checked_norm(norm))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the input that the region is around."""
        return self.center.shape

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.center.size

    @property
    def radius(self) -> float:
        """Radius of the largest l_p ball around the centre that lies inside: the smallest semi-axis."""
        return float(self.axes.min())

    @property
    def enclosing_radius(self) -> float:
        """Radius of the smallest l_p ball around the centre that contains the region: the largest semi-axis."""
        return float(self.axes.max())

    @property
    def proxy_radius(self) -> float:
        """Radius of the l_p ball of the same volume: the geometric mean of the semi-axes."""
        # By logarithms, in float64: a product of d-th roots in float32 is off by 0.65 % at ImageNet size.
        mean = math.exp(float(np.log(self.axes).mean()))
        return min(max(mean, self.radius), self.enclosing_radius)

    def proxy_radius_inside(self, low: float, high: float) -> float:
        """Proxy radius of the part in the box of valid inputs, by the sides of the smallest box around that part.

        The geometric mean of half those sides: the proxy radius where the whole region lies in [low, high], less
        elsewhere. The centre must lie in the box.
        """
        if not (float(self.center.min()) >= low and float(self.center.max()) <= high):
            raise ArgumentError(f"low, high: expected a box around the centre, got {low}, {high}")
        sides = np.minimum(self.center + self.axes, high) - np.maximum(self.center - self.axes, low)
        return min(math.exp(float(np.log(sides / 2).mean())), self.proxy_radius)

    @property
    def log_volume(self) -> float:
        """Natural logarithm of the volume."""
        d = self.dim
        if self.norm == 2:
            unit_ball = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
        else:
            unit_ball = d * math.log(2) - math.lgamma(d + 1)
        return unit_ball + float(np.log(self.axes).sum())

    def gauge(self, z: ArrayLike) -> float:
        """||(z - center) / axes||_norm of one point: below 1 inside, 1 on the boundary.

        Args:
            z: a point of the region's shape `s`.
        """
        return float(self.gauges(checked_point("z", z, self.shape)[None])[0])

    def gauges(self, points: ArrayLike) -> FloatArray:
        """Gauge of each of n points.

        Args:
            points: `n x s`.

        Returns:
            n numbers.
        """
        z = checked_array("points", points)
        if z.shape[1:] != self.shape or z.ndim == 0:
            raise ArgumentError(f"points: expected shape (n, {', '.join(map(str, self.shape))}), got {z.shape}")
        with np.errstate(over="ignore"):
            ratio = np.abs(z - self.center) / self.axes
        return p_norm(ratio.reshape(len(z), self.dim), self.norm)

    def contains(self, z: ArrayLike) -> bool:
        """Whether gauge(z) <= 1, in plain float64: a point on the boundary may fall on either side by rounding."""
        return self.gauge(z) <= 1.0

    def scaled(self, k: float) -> Region:
        """The same region with all semi-axes multiplied by k > 0."""
        if not (isinstance(k, (int, float, np.number)) and math.isfinite(k) and k > 0):
            raise ArgumentError(f"k: expected a finite number above 0, got {k!r}")
        with np.errstate(over="ignore"):
            return Region(self.center, self.axes * float(k), self.norm)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        same = self.norm == other.norm and np.array_equal(self.center, other.center)
        return bool(same and np.array_equal(self.axes, other.axes))

    def __hash__(self) -> int:
        # Adding zero merges -0.0 with 0.0, which compare equal.
        return hash((self.norm, self.shape, (self.center + 0.0).tobytes(), self.axes.tobytes()))

    def __repr__(self) -> str:
        sizes = f"radius={self.radius}, proxy_radius={self.proxy_radius}"  # all digits: fewer could be more than is so
        return f"Region(norm={self.norm}, shape={self.shape}, {sizes})"


def p_norm(values: FloatArray, norm: int) -> FloatArray:
    """l1 or l2 norm of non-negative values over the last axis, without overflow of the squares."""
    if norm == 1:
        total: FloatArray = values.sum(axis=-1)
        return total
    top = values.max(axis=-1)
    with np.errstate(invalid="ignore"):
        unit = np.where(top > 0, top, 1.0)[..., None]
        length = top * np.sqrt(np.square(values / unit).sum(axis=-1))
    result: FloatArray = np.where(np.isinf(top), np.inf, length)
    return result


def checked_array(name: str, value: Any) -> FloatArray:
    """Value as float64 without copying where possible; an error unless it holds finite real numbers."""
    try:
        raw = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{name}: expected an array of numbers, got {type(value).__name__} ({error})") from error
    if raw.dtype.kind not in "fiu":
        raise ArgumentError(f"{name}: expected an array of real numbers, got {type(value).__name__} of {raw.dtype}")
    array: FloatArray = raw.astype(np.float64, copy=False)
    # Reductions rather than elementwise masks: NaN goes through min and max, and nothing large is allocated.
    if array.size and not max(-float(array.min()), float(array.max())) <= LARGEST:
        raise ArgumentError(f"{name}: expected finite numbers of magnitude up to {LARGEST:g}, got {_worst(array)}")
    return array


def checked_point(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """Value as a point of a region of this shape, as by `checked_array`; an error if it has another shape."""
    point = checked_array(name, value)
    if point.shape != shape:
        raise ArgumentError(f"{name}: expected shape {shape}, got {point.shape}")
    return point


def check_axes(axes: FloatArray) -> None:
    """An error unless every semi-axis is above 0."""
    if axes.size and not float(axes.min()) > 0:
        raise ArgumentError(f"axes: expected numbers above 0, got {float(axes.min())}")


def checked_norm(norm: Any) -> int:
    """1 or 2 as an int, or an error."""
    if isinstance(norm, (bool, np.bool_)) or not isinstance(norm, (int, float, np.number)) or norm not in (1, 2):
        raise ArgumentError(f"norm: expected 1 or 2, got {norm!r}")
    return int(norm)


def _worst(array: FloatArray) -> float:
    """The entry to name in an error: NaN if there is one, else the largest magnitude."""
    return float("nan") if np.isnan(array).any() else float(array.flat[np.abs(array).argmax()])
