"""Base classifiers: six losses, and one loop; selectors, which choose their noise; denoisers, which remove it."""

from anisocert.train.accuracy import noisy_accuracy
from anisocert.train.cohen import Cohen
from anisocert.train.consistency import Consistency
from anisocert.train.denoising import Denoising
from anisocert.train.distillation import Distillation, distilled
from anisocert.train.loop import train
from anisocert.train.macer import MACER
from anisocert.train.recipe import Recipe
from anisocert.train.selector import Selector, code_values, selector_data
from anisocert.train.sgd import Sgd
from anisocert.train.smoothadv import SmoothAdv
from anisocert.train.stability import Stability
from anisocert.train.task import Task

RECIPES: dict[str, type[Recipe]] = {
    recipe.name: recipe
    for recipe in (Cohen, SmoothAdv, MACER, Stability, Consistency, Selector, Denoising, Distillation)
}

__all__ = [
    "MACER", "RECIPES", "Cohen", "Consistency", "Denoising", "Distillation", "Recipe", "Selector", "Sgd", "SmoothAdv",
    "Stability", "Task", "code_values", "distilled", "noisy_accuracy", "selector_data", "train",
]  # fmt: skip
