"""What every smoothing distribution must say: how its noise is drawn, and which region a pair of bounds certifies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError
from anisocert.geometry import Region

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
# Relative and absolute; they cover the rounding of the quantile function and of the difference of two of them.
GAP_MARGIN, GAP_FLOOR = 1e-12, 1e-14


class Smoothing(ABC):
    """A noise `theta * eps` around an input, and the certificate it gives.

    norm: of the certified region. base: distribution of eps, "normal" or uniform on [-1, 1]. weights: of the mixture's
    components (one, for noises that are no mixture). theta: per-coordinate scale of the region, as the float32 values
    that the noise is drawn with.
    """

    norm: ClassVar[Literal[1, 2]]
    base: ClassVar[Literal["normal", "uniform"]]
    weights: tuple[float, ...] = (1.0,)
    theta: NDArray[np.float32]

    @abstractmethod
    def scales(self, theta: Tensor) -> Tensor:
        """Noise scales of a batch, one a mixture component. theta: `b x *shape` -> `b x j x *shape`."""

    @abstractmethod
    def _gap(self, p_a: Floats, p_b: Floats) -> Floats:
        """The gap r of the certified set ||delta / theta|| < r, where p_a > p_b."""

    @abstractmethod
    def soft_gap(self, p_a: Tensor, p_b: Tensor) -> Tensor:
        """The gap of probabilities that an optimiser may differentiate; certifies nothing. Shapes broadcast."""

    def gap(self, p_a: ArrayLike, p_b: ArrayLike) -> Floats:
        """The certified gap, rounded down; 0 where p_a <= p_b. Shapes broadcast."""
        a, b = np.broadcast_arrays(np.asarray(p_a, np.float64), np.asarray(p_b, np.float64))
        certified = a > b
        gap = self._gap(np.where(certified, a, 0.5), np.where(certified, b, 0.5))
        return np.where(certified, np.maximum(gap * (1 - GAP_MARGIN) - GAP_FLOOR, 0.0), 0.0)

    def region(self, center: ArrayLike, theta: ArrayLike, gap: float) -> Region:
        """{z : ||(z - center) / theta||_norm <= gap}, rounded inwards: certified sets are open, regions closed."""
        center = np.asarray(center, np.float64)
        axes = np.broadcast_to(np.asarray(theta, np.float64) * gap, center.shape)
        return Region(center, axes * (1 - 4 * np.finfo(float).eps), self.norm)


def positive(name: str, value: ArrayLike) -> NDArray[np.float32]:
    """A scale parameter as float32: scalar or full shape, positive and finite."""
    try:
        array = np.array(value, np.float32)  # a copy: it is made read-only, and the caller's must not be
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"expected {name} as numbers, got {value!r}") from error
    if array.size == 0 or not bool(np.all(np.isfinite(array)) and np.all(array > 0)):
        raise ArgumentError(f"expected {name} positive and finite, got {value!r}")
    array.setflags(write=False)
    return array
