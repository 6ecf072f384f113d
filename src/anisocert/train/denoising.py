"""Training of a denoiser: to give images back, then to give a classifier behind it what it needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.data import Dataset
from anisocert.engine.first_call import taking
from anisocert.engine.given import home, own_copy
from anisocert.engine.numerics import out_of_memory
from anisocert.engine.told import beside
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Denoised, Denoiser, suited_denoiser
from anisocert.smoothing import Smoothing
from anisocert.train._classifier import classifier_of, network_hash
from anisocert.train._mixed import Mixed
from anisocert.train.levels import random_theta, warn_of_levels
from anisocert.train.recipe import Recipe, noise_like
from anisocert.train.sgd import Sgd
from anisocert.train.task import Task

Answer = Literal["labels", "clean"]


@dataclass(frozen=True)
class Denoising(Recipe):
    """Noise of random levels and shapes, which the denoiser is told: it learns to give the image, then the answer.

    Args:
        low: smallest level, of which a shape may be smaller still.
        high: largest level.
        reconstruct: share of the epochs with the error of the image alone.
        answer: what the classifier should say behind it: "labels", or "clean": what it says without noise.
        weight: of the answer's error.
        keep: weight of the image's error beside it.
        told: what a denoiser is told of the noise: "theta", or "scalar", its mean.
        classifier: it stays as it is; a copy in evaluation mode is asked.
        behind: whether the classifier is behind it, as it is after the first epochs.
    """

    low: float = 0.1
    high: float = 1.0
    reconstruct: float = 0.05
    answer: Answer = "labels"
    weight: float = 1.0
    keep: float = 0.01
    told: str = "theta"
    classifier: nn.Module | None = None
    behind: bool = field(default=True, repr=False)

    name = "denoiser"
    bases = ("normal", "uniform")
    held = ("classifier", "told", "behind")
    own = ("told", "levels")
    needs_classifier = True
    in_front = True
    without_labels = ": use --set answer=clean (answer='clean'), which needs none"

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < math.inf:
            raise ArgumentError(
                f"expected finite levels 0 < low <= high (--levels LOW,HIGH), got {self.low:g} and {self.high:g}"
            )
        if not 0 <= self.reconstruct <= 1:
            raise ArgumentError(f"expected reconstruct in [0, 1], got {self.reconstruct}")
        if not 0 < self.weight < math.inf or not 0 <= self.keep < math.inf:
            raise ArgumentError(f"expected weight > 0 and keep >= 0, both finite, got {self.weight} and {self.keep}")
        if self.answer not in get_args(Answer):
            raise ArgumentError(f"expected answer 'labels' or 'clean', got {self.answer!r}")

    @classmethod
    def for_sigma(cls, sigma: float) -> Self:
        """For certificates with noise of this level, and of those that a search finds around it."""
        return cls(low=sigma / 4, high=2 * sigma)

    def with_own(self, given: Mapping[str, str]) -> Self:
        """See Recipe."""
        recipe = replace(self, told=given.get("told", self.told))
        if "levels" not in given:
            return recipe
        try:
            low, high = map(float, given["levels"].split(","))
        except ValueError as error:
            raise ArgumentError(f"expected --levels LOW,HIGH, two numbers, got {given['levels']!r}") from error
        return replace(recipe, low=low, high=high)

    def suited(self, shape: tuple[int, ...]) -> str:
        """See Recipe."""
        return suited_denoiser(shape)

    def network(self, architecture: str, data: Dataset, smoothing: Smoothing) -> Denoiser:
        """See Recipe: for the levels of its noise."""
        told, levels = self.told, (self.low, self.high)
        return Denoiser(architecture, data.shape, data.mean, data.std, told, smoothing.name, levels)  # type: ignore[arg-type]  # it checks the word

    def prepared(self, task: Task) -> tuple[nn.Module, Self, Dataset]:
        """See Recipe: with the classifier, which takes the data's inputs and gives gradients."""
        assert task.classifier is not None
        recipe = replace(self, classifier=classifier_of(task.classifier, task.data, reading=task.reading))
        return recipe.network(task.architecture, task.data, task.smoothing), recipe, task.data

    def sgd(self, examples: int, epochs: int) -> Sgd:
        """See Recipe; through a classifier gradients are large at times, and one such step would undo many."""
        return replace(Sgd.suited(examples, epochs), clip=1.0)

    @property
    def labelled(self) -> bool:
        """See Recipe."""
        return self.answer == "labels" and self.reconstruct < 1  # else no epoch asks for an answer

    def answering(self, model: nn.Module) -> nn.Module:
        """See Recipe: the classifier behind the denoiser."""
        assert self.classifier is not None
        return Denoised(self.classifier, model)

    def on(self, device: torch.device) -> Self:
        """See Recipe: with a copy of the classifier, which is the caller's."""
        return self if self.classifier is None else replace(self, classifier=own_copy(self.classifier, device))

    def try_on(self, data: Dataset) -> None:
        """See Recipe: through a classifier without gradients nothing is learned, unless only images are given back."""
        if self.classifier is None or self.reconstruct == 1:
            return
        x = torch.from_numpy(data.subset(most=1).x).to(home(self.classifier)).requires_grad_(True)
        with taking(data.shape, self.classifier):
            scores = self.classifier(x.clone())  # which a network may change
        slope, cause = None, None
        try:
            (slope,) = torch.autograd.grad(scores.sum(), [x], allow_unused=True)
        except RuntimeError as reason:
            if out_of_memory(reason):
                raise
            cause = reason
        if slope is None:
            raise ModelError(
                "expected a classifier with gradients to its input, from which a denoiser learns, got one without: use "
                "--set reconstruct=1 (reconstruct=1), which only gives images back and needs none"
            ) from cause

    def check(self, smoothing: Smoothing) -> None:
        """See Recipe; warns of a level that it does not learn."""
        super().check(smoothing)
        warn_of_levels(smoothing, self.low, self.high, "(--levels)")

    def during(self, epoch: int, epochs: int) -> Self:
        """See Recipe."""
        return replace(self, behind=epoch >= self.reconstruct * epochs)

    def options(self) -> dict[str, Any]:
        """See Recipe; of the classifier its hash. What a denoiser is told is in its blueprint."""
        return super().options() | {"classifier": network_hash(self.classifier)}

    def typed(self) -> dict[str, Any]:
        """See Recipe; without its levels, which are typed together."""
        return {name: value for name, value in super().typed().items() if name not in ("low", "high")}

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """||D - x||^2 in units of the linear guess's error; with a classifier f, keep times that and weight times f's.

        f's error: CE(f(D), y), or KL(f(x) || f(D)), where D is the denoised image.
        """
        assert isinstance(model, Mixed)
        denoiser = model.network
        assert isinstance(denoiser, Denoiser)
        theta = random_theta(x, self.low, self.high)
        noisy = beside(x + theta * noise_like(x, smoothing.of(1.0)), theta)
        denoised = model(noisy)
        error = denoiser.error(noisy, denoised, x)
        if not self.behind:
            return error
        assert self.classifier is not None
        classifier = model.beside(self.classifier)
        scores = classifier(denoised)
        if self.answer == "labels":
            return self.weight * F.cross_entropy(scores, y) + self.keep * error
        with torch.no_grad():
            target = classifier(x).log_softmax(1)
        divergence = F.kl_div(scores.log_softmax(1), target, reduction="batchmean", log_target=True)
        return self.weight * divergence + self.keep * error
