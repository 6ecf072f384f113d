"""From the options of `anisocert train` to a recipe and a noise; errors come before any data is read."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from anisocert.data import Dataset
from anisocert.errors import ArgumentError
from anisocert.models import Codebook
from anisocert.models.loading import is_function
from anisocert.smoothing import GaussianMixture, Smoothing, usual
from anisocert.train import RECIPES, Recipe

Kind = type[Recipe]


def expect_taken(
    kind: Kind, classifier: Path | None, arch: str | None, own: Mapping[str, object], reading: Mapping[str, object]
) -> None:
    """An error for options that the recipe does not take, and for a network that it needs and that is not named."""
    if kind.needs_classifier != (classifier is not None):
        needing = " or ".join(recipe.name for recipe in RECIPES.values() if recipe.needs_classifier)
        raise ArgumentError(f"expected --classifier, a network, with --recipe {needing} and with no other")
    if classifier is None and reading:
        raise ArgumentError(f"expected --{next(iter(reading))} with --classifier, which it is about, got it alone")
    for name, value in own.items():
        if name not in kind.own:
            owners = " or ".join(recipe.name for recipe in RECIPES.values() if name in recipe.own)
            raise ArgumentError(f"expected --{name} with --recipe {owners} and with no other, got {str(value)!r}")
    if arch is not None and not kind.fresh:
        raise ArgumentError(f"expected no --arch with --recipe {kind.name}, which trains the classifier, got {arch!r}")


def noise_of(kind: Kind, norm: str, sigma: float | None, codebook: Path | None) -> tuple[Codebook | None, Smoothing]:
    """The codebook, if any, and the noise to train with: of one level, or drawn from the codes."""
    if (sigma is None) != (codebook is not None) or (kind.needs_codebook and codebook is None):
        needed = f"--codebook with --recipe {kind.name}" if kind.needs_codebook else "one of --sigma and --codebook"
        raise ArgumentError(f"expected {needed}, got {'both' if sigma and codebook else 'none'}")
    if codebook is None:
        return None, usual(norm).of(sigma)  # type: ignore[arg-type]  # one of the two is there
    book = Codebook.load(codebook)
    if kind.needs_codebook:
        return book, usual(norm).of(book.sigma)
    if norm != "l2":
        raise ArgumentError("expected --norm l2 with --codebook, whose codes are drawn as a Gaussian mixture, got l1")
    return book, GaussianMixture([1 / len(book)] * len(book), list(book.codes))


def recipe_of(kind: Kind, sigma: float, own: Mapping[str, object], changes: Sequence[str]) -> Recipe:
    """The recipe with the paper's options for a noise level, then with its own, then changed by KEY=VALUE texts."""
    recipe = kind.for_sigma(sigma).with_own({name: str(value) for name, value in own.items()})
    kinds = {name: type(value) for name, value in recipe.typed().items()}
    changed: dict[str, float | int] = {}
    for text in changes:
        key, _, value = text.partition("=")
        if key not in kinds:
            raise ArgumentError(f"expected --set of {', '.join(kinds) or 'nothing'} with {kind.name}, got {text!r}")
        try:
            changed[key] = kinds[key](value)
        except ValueError as error:
            raise ArgumentError(f"expected --set {key} as {kinds[key].__name__}, got {value!r}") from error
    return dataclasses.replace(recipe, **changed)  # type: ignore[type-var]


def expect_network(recipe: Recipe, arch: str | None, smoothing: Smoothing) -> None:
    """An error unless the recipe's network can be built, which is tried for a small image, without its weights."""
    image, none = np.zeros((1, 1, 4, 4), np.float32), np.zeros(1, np.int64)
    small = Dataset("small", image, none, none, num_classes=2, mean=(0.0,), std=(1.0,))
    with torch.device("meta"):
        recipe.network(arch or recipe.suited(small.shape), small, smoothing)


def label_notes(examples: Dataset) -> Iterator[str]:
    """A line where some classes have no example, so that a network gives them a score that it never learns."""
    if not examples.labelled:
        return
    absent = np.setdiff1d(np.arange(examples.num_classes), examples.y).tolist()
    if absent:
        names = ", ".join(map(str, absent[:5])) + (", ..." if len(absent) > 5 else "")
        remedy = ": do labels start at 1?" if absent == [0] else ""
        yield f"no training example has class {names}, of {examples.num_classes}{remedy}"


def expect_there(classifier: Path | None) -> None:
    """An error unless a network is where it is said to be."""
    if classifier is not None and not is_function(str(classifier)) and not classifier.exists():
        raise ArgumentError(
            "expected --classifier, a network file or package.module:function, got "
            f"{classifier.absolute()}, where nothing is"
        )
