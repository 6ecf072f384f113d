"""Base classifiers: losses, and one loop."""

from anisocert.train.cohen import Cohen
from anisocert.train.loop import train
from anisocert.train.recipe import Recipe

__all__ = ["Cohen", "Recipe", "train"]
