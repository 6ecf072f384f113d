"""Which theta: how the noise's scale is chosen for each input."""

from anisocert.optimize.base import Method
from anisocert.optimize.fixed import Fixed

__all__ = ["Fixed", "Method"]
