"""The noises: how each is drawn, and which gap and region a bound gives."""

from anisocert.smoothing.base import NOISES, Smoothing, named, unnamed, usual
from anisocert.smoothing.claims import claimable, impossible
from anisocert.smoothing.gaussian import Gaussian
from anisocert.smoothing.mixture import GaussianMixture
from anisocert.smoothing.uniform import Uniform

__all__ = [
    "NOISES", "Gaussian", "GaussianMixture", "Smoothing", "Uniform", "claimable", "impossible", "named", "unnamed",
    "usual",
]  # fmt: skip
