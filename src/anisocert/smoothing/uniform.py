"""Uniform smoothing: l1 cross-polytopes (Lee et al. 2019; Yang et al. 2020; ANCER, Theorem 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.smoothing.base import Floats, Smoothing, positive


@dataclass(frozen=True, init=False, eq=False)
class Uniform(Smoothing):
    """Uniform noise on [x - lam, x + lam]: l1 cross-polytopes.

    Args:
        lam: half-width in the input's own units, one number, or one per value: an array of the input's shape. Ideally
            the one that the model was trained with. Methods that search for theta start from one number.
    """

    name, title, symbol = "uniform", "uniform", "λ"
    norm = 1
    base = "uniform"
    theta: NDArray[np.float32]

    def __init__(self, lam: ArrayLike) -> None:
        object.__setattr__(self, "theta", positive("lam", lam))

    @staticmethod
    def _gap(p_a: Floats, p_b: Floats) -> Floats:
        return p_a - p_b
