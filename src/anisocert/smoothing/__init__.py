"""The noises: how each is drawn, and which gap and region a bound gives."""

from anisocert.smoothing.base import NOISES, Smoothing, named, unnamed, usual
from anisocert.smoothing.claims import SELECTOR, cap, claimable, impossible, level, wrong_capture
from anisocert.smoothing.gaussian import Gaussian
from anisocert.smoothing.mixture import GaussianMixture
from anisocert.smoothing.uniform import Uniform

__all__ = [
    "NOISES", "SELECTOR", "Gaussian", "GaussianMixture", "Smoothing", "Uniform", "cap", "claimable", "impossible",
    "level", "named", "unnamed", "usual", "wrong_capture",
]  # fmt: skip
