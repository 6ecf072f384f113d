"""Fine-tuning for noise without labels: a network learns to say under noise what it said before without."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.data import Dataset
from anisocert.engine.given import home, own_copy
from anisocert.engine.told import beside
from anisocert.errors import ArgumentError
from anisocert.models import Denoised, Denoiser
from anisocert.models.weights import weights_hash
from anisocert.smoothing import Smoothing
from anisocert.train._classifier import classifier_of, network_hash
from anisocert.train._mixed import Mixed
from anisocert.train.levels import random_theta, warn_of_levels
from anisocert.train.recipe import Recipe, noise_like
from anisocert.train.sgd import Sgd
from anisocert.train.task import Task


@dataclass(frozen=True)
class Distillation(Recipe):
    """KL from the answer of the network as it was, without noise, to that of the network under noise.

    Args:
        classifier: the network as it was; a copy in evaluation mode is asked, and what is trained begins as another.
        denoiser: that stays in front of what is trained, as it is. The noise then has the random levels and shapes that
            the denoiser was trained with, and not the one level of the training.
    """

    classifier: nn.Module | None = None
    denoiser: Denoiser | None = None

    name = "distillation"
    bases = ("normal", "uniform")
    mixtures = True
    held = ("classifier", "denoiser")
    own = ("denoise",)
    needs_classifier = True
    fresh = False

    def prepared(self, task: Task) -> tuple[nn.Module, "Distillation", Dataset]:
        """See Recipe."""
        assert task.classifier is not None
        return *distilled(task.classifier, task.denoise, task.data, task.reading), task.data

    @property
    def labelled(self) -> bool:
        """See Recipe."""
        return False

    def on(self, device: torch.device) -> Self:
        """See Recipe: with copies of the networks, which are the caller's."""
        return replace(
            self,
            classifier=None if self.classifier is None else own_copy(self.classifier, device),
            denoiser=None if self.denoiser is None else own_copy(self.denoiser, device),
        )

    def sgd(self, examples: int, epochs: int) -> Sgd:
        """See Recipe; small steps, as what was learned before is to be kept."""
        return replace(Sgd.suited(examples, epochs), learning_rate=0.01)

    def answering(self, model: nn.Module) -> nn.Module:
        """See Recipe: behind its denoiser."""
        return model if self.denoiser is None else Denoised(model, self.denoiser)

    def classes(self, data: Dataset) -> int:
        """See Recipe; as many as the network had before."""
        assert self.classifier is not None
        with torch.no_grad():
            return int(self.classifier(torch.zeros(1, *data.shape, device=home(self.classifier))).shape[1])

    def options(self) -> dict[str, Any]:
        """See Recipe; of the network its hash, of the denoiser that of its weights and what it was trained for."""
        denoiser = (
            None if self.denoiser is None else self.denoiser.blueprint() | {"sha256": weights_hash(self.denoiser)}
        )
        return super().options() | {"classifier": network_hash(self.classifier), "denoiser": denoiser}

    def check(self, smoothing: Smoothing) -> None:
        """See Recipe."""
        super().check(smoothing)
        if self.denoiser is not None and smoothing.name != self.denoiser.noise:
            raise ArgumentError(
                f"expected {self.denoiser.noise} noise, which the denoiser was trained for, got {smoothing.name}"
            )
        if self.denoiser is not None:
            warn_of_levels(smoothing, *self.denoiser.levels, "of the denoiser")

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """KL(f0(x) || f(x + eps)), or f of what the denoiser makes of x + eps."""
        assert isinstance(model, Mixed)
        assert self.classifier is not None
        with torch.no_grad():
            target = model.beside(self.classifier)(x).log_softmax(1)
            if self.denoiser is None:
                inputs = x + noise_like(x, smoothing)
            else:
                theta = random_theta(x, *self.denoiser.levels)
                noisy = x + theta * noise_like(x, smoothing.of(1.0))
                inputs = model.beside(self.denoiser)(beside(noisy, theta))
        return F.kl_div(model(inputs).log_softmax(1), target, reduction="batchmean", log_target=True)


def distilled(
    source: str | Path, denoise: str | Path | None, data: Dataset, reading: Mapping[str, Any] | None = None
) -> tuple[nn.Module, Distillation]:
    """The network of a file, to be trained, and the recipe that knows what it says now.

    denoise: a denoiser's file. reading: see `Task`.
    """
    model = classifier_of(source, data, None if denoise is None else str(denoise), reading)
    network, denoiser = (model.network, model.denoiser) if isinstance(model, Denoised) else (model, None)
    if denoiser is not None and not isinstance(denoiser, Denoiser):
        raise ArgumentError(
            f"expected a denoiser, a file of `anisocert train --recipe denoiser`, got {denoise}, a function's"
        )
    return copy.deepcopy(network), Distillation(network, denoiser)
