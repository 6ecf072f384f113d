"""The noises: how each is drawn, and which gap and region a bound gives."""

from anisocert.smoothing.base import Smoothing
from anisocert.smoothing.gaussian import Gaussian
from anisocert.smoothing.mixture import GaussianMixture
from anisocert.smoothing.uniform import Uniform

__all__ = ["Gaussian", "GaussianMixture", "Smoothing", "Uniform"]
