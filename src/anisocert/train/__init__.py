"""Base classifiers: four losses, and one loop."""

from anisocert.train.accuracy import noisy_accuracy
from anisocert.train.cohen import Cohen
from anisocert.train.loop import train
from anisocert.train.macer import MACER
from anisocert.train.recipe import Recipe
from anisocert.train.sgd import Sgd
from anisocert.train.smoothadv import SmoothAdv
from anisocert.train.stability import Stability

RECIPES: dict[str, type[Recipe]] = {recipe.name: recipe for recipe in (Cohen, SmoothAdv, MACER, Stability)}

__all__ = ["MACER", "RECIPES", "Cohen", "Recipe", "Sgd", "SmoothAdv", "Stability", "noisy_accuracy", "train"]
