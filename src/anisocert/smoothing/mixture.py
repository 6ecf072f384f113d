"""Gaussian-mixture smoothing: l2 ellipsoids from several covariances (ANCER, appendix B)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError
from anisocert.rounding import TOLERANCE, agrees, down
from anisocert.smoothing.base import Floats, Smoothing, positive

if TYPE_CHECKING:
    from torch import Tensor

DRAWN = 2.0**-22
"""No component is drawn more often than its weight and this: shares are rounded to 2^-64, without a grid to float32,
and weights may fail to add up to 1 by TOLERANCE. What is certified is the mixture as drawn, so nothing remains."""


@dataclass(frozen=True, init=False, eq=False)
class GaussianMixture(Smoothing):
    """Noise from several Gaussians, sum_j weights[j] N(x, diag(sigmas[j]^2)): l2 ellipsoids. With `Fixed()` only.

    For f in [0, 1] the smoothed score is Lipschitz with constant 1/sqrt(2 pi) in each component's norm, so the region
    is sqrt(delta' M delta) < sqrt(pi/2) (p_A - p_B) with M = sum_j weights[j] / sigmas[j]^2; theta = M^(-1/2). (The
    paper's constant 1/sqrt(2 pi) for the gap is sound but too small by the factor pi.)

    Args:
        weights: probability of each component, with sum 1.
        sigmas: standard deviations, one number, or one array of the input's shape, per component.
    """

    name, title, symbol = "gaussian-mixture", "Gaussian-mixture", "σ"
    former = "gaussianmixture"  # its name in the files of networks that earlier versions trained
    norm = 2
    base = "normal"
    weights: tuple[float, ...]
    sigmas: NDArray[np.float32]
    theta: NDArray[np.float32]

    def __init__(self, weights: Sequence[float], sigmas: Sequence[ArrayLike]) -> None:
        try:
            a = np.asarray(weights, np.float64)
        except (TypeError, ValueError):  # no numbers, or lists of unequal length
            a = np.zeros(0)
        if a.ndim != 1 or len(a) == 0 or not bool(np.all(a > 0)) or not agrees(a.sum(), 1.0, more=TOLERANCE):
            raise ArgumentError(f"expected weights positive with sum 1, got {weights!r}")
        if not hasattr(sigmas, "__len__") or getattr(sigmas, "ndim", 1) == 0:
            raise ArgumentError(f"expected sigmas, one per weight, as in [0.2, 0.4], got {sigmas!r}")
        if len(sigmas) != len(a):
            raise ArgumentError(f"expected one of sigmas for each of {len(a)} weights, got {len(sigmas)}")
        scales = [positive("sigmas", s) for s in sigmas]
        if len({s.shape for s in scales if s.ndim}) > 1:
            raise ArgumentError(f"expected sigmas as scalars or of one shape, got shapes {[s.shape for s in scales]}")
        stacked = np.stack(np.broadcast_arrays(*scales))
        theta = np.tensordot(a + DRAWN, stacked.astype(np.float64) ** -2.0, 1) ** -0.5
        # float32 like every theta, rounded down: the region may only become smaller
        rounded = np.asarray(down(theta.astype(np.float32)))
        if not rounded.min() > 0:
            raise ArgumentError(f"expected sigmas whose mixture has a positive theta in float32, got {sigmas!r}")
        for array in (rounded, stacked):
            array.setflags(write=False)
        object.__setattr__(self, "theta", rounded)
        object.__setattr__(self, "weights", tuple(a.tolist()))
        object.__setattr__(self, "sigmas", stacked)

    @classmethod
    def of(cls, theta: ArrayLike) -> NoReturn:
        """Raise an error: many mixtures, which draw different noise, share one theta."""
        raise ArgumentError(
            f"expected a noise that its theta describes, got {cls.name}, whose weights and sigmas must be known: "
            "certify with --components, or smoothing=ac.GaussianMixture(weights, sigmas)"
        )

    @classmethod
    def parsed(cls, components: str | None, sigma: float) -> GaussianMixture:
        """Parse weights and multiples of sigma, as in "0.3:0.8,0.7:1.6"."""
        if components is None:
            return cls.of(sigma)
        try:
            weights, levels = zip(*(map(float, part.split(":")) for part in components.split(",")), strict=True)
        except ValueError as error:
            raise ArgumentError(
                f"expected components as weight:multiple of sigma, as in 0.3:0.8,0.7:1.6, got {components!r}"
            ) from error
        return cls(weights, [sigma * level for level in levels])

    def at(self, theta: ArrayLike) -> Self:
        """Return the mixture itself: its noise comes from its components, and from no other theta."""
        if not np.array_equal(self.theta, theta):
            raise ArgumentError(f"expected a mixture's own theta, {self.theta!r}, got {theta!r}")
        return self

    def scales(self, theta: Tensor) -> Tensor:
        """The given components for every input, whose theta must be this mixture's own."""
        import torch

        if not bool((theta == torch.from_numpy(np.array(self.theta)).to(theta.device)).all()):
            # The noise would stay as it is, and a region of another theta would be promised from its votes.
            raise ArgumentError("expected a mixture's own theta (method Fixed), got another: its components are given")
        sigmas = torch.from_numpy(np.array(self.sigmas)).to(theta.device)
        sigmas = sigmas.view(len(self.weights), *(sigmas.shape[1:] or [1] * (theta.dim() - 1)))
        return sigmas.expand(len(theta), *sigmas.shape)

    @staticmethod
    def _gap(p_a: Floats, p_b: Floats) -> Floats:
        return math.sqrt(math.pi / 2) * (p_a - p_b)
