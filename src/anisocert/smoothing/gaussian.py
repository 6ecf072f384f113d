"""Gaussian smoothing: l2 ellipsoids (Cohen et al. 2019; ANCER, Theorem 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from anisocert.smoothing.base import Floats, Smoothing, positive

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, init=False, eq=False)
class Gaussian(Smoothing):
    """Gaussian noise, N(x, diag(sigma^2)): l2 ellipsoids.

    Args:
        sigma: standard deviation in the input's own units, one number, or one per value: an array of the input's shape.
            Ideally the one that the model was trained with. Methods that search for theta start from one number.
    """

    name, title, symbol = "gaussian", "Gaussian", "σ"
    norm = 2
    base = "normal"
    theta: NDArray[np.float32]

    def __init__(self, sigma: ArrayLike) -> None:
        object.__setattr__(self, "theta", positive("sigma", sigma))

    @staticmethod
    def _gap(p_a: Floats, p_b: Floats) -> Floats:
        gap: Floats = (ndtri(p_a) - ndtri(p_b)) / 2
        return gap

    def soft_gap(self, p_a: Tensor, p_b: Tensor) -> Tensor:
        """See Smoothing; probabilities are kept off 0 and 1, where the quantile's slope is infinite."""
        import torch  # needed by optimisers only: a gap or a region does without

        a, b = (torch.special.ndtri(p.clamp(0.001, 0.999)) for p in (p_a, p_b))
        return torch.sub(a, b) / 2
