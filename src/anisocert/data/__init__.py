"""Data sets with stable example ids."""

from anisocert.data.dataset import Dataset
from anisocert.data.digits import digits

__all__ = ["Dataset", "digits"]
