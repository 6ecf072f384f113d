"""What every training recipe must define: its loss on a batch under noise, and what it is prepared from."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from anisocert.data import Dataset
from anisocert.errors import ArgumentError
from anisocert.models import build, suited
from anisocert.smoothing import Smoothing
from anisocert.train.sgd import Sgd
from anisocert.train.task import Task


class Recipe(ABC):
    """A way to train a base classifier; a small frozen dataclass that holds its own options.

    bases: the noises it is defined for, by the name of their base distribution; mixtures: also of several levels.
    held: fields that are no options to type or to compare as they are: networks, arrays, what is known from elsewhere.
    own: options of the command that it alone takes, and that --set does not.
    needs_classifier: whether it begins with another network; needs_codebook: whether with a codebook.
    fresh: whether it trains a new network, of an architecture; in_front: whether that stands in front of the other.
    answers: whether what is trained gives the data's classes, so that its accuracy says something.
    """

    name: ClassVar[str]
    bases: ClassVar[tuple[str, ...]] = ("normal",)
    mixtures: ClassVar[bool] = False
    without_labels: ClassVar[str] = ""  # what to do where there are none, if anything
    held: ClassVar[tuple[str, ...]] = ()
    own: ClassVar[tuple[str, ...]] = ()
    needs_classifier: ClassVar[bool] = False
    needs_codebook: ClassVar[bool] = False
    fresh: ClassVar[bool] = True
    in_front: ClassVar[bool] = False
    answers: ClassVar[bool] = True

    @classmethod
    def for_sigma(cls, sigma: float) -> Self:
        """The recipe with the options that suit a noise level: the same for all, unless a recipe overrides this."""
        return cls()

    def with_own(self, given: Mapping[str, str]) -> Self:
        """The recipe with those of its `own` options that were given, as they were typed; errors name them."""
        return self

    def suited(self, shape: tuple[int, ...]) -> str:
        """The architecture for inputs of this shape, if none is named."""
        return suited(shape)

    def network(self, architecture: str, data: Dataset, smoothing: Smoothing) -> nn.Module:
        """A fresh network for the data."""
        return build(architecture, self.classes(data), data.mean, data.std)

    def prepared(self, task: Task) -> "tuple[nn.Module, Recipe, Dataset]":
        """What is trained, the recipe with all that it holds, and the examples as it takes them."""
        return self.network(task.architecture, task.data, task.smoothing), self, task.data

    @property
    def labelled(self) -> bool:
        """Whether it learns from the data's classes."""
        return True

    @abstractmethod
    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """Mean loss of a batch. x: `b x *shape`; y: `b`."""

    def on(self, device: torch.device) -> Self:
        """The recipe with its tensors, if it holds any, on a device, so that no step waits for copies."""
        return self

    def try_on(self, data: Dataset) -> None:
        """Raise an error if an example shows that nothing would be learned; called once, on the device."""
        return

    def during(self, epoch: int, epochs: int) -> Self:
        """The recipe as it is in one epoch (from 0) of `epochs`: the same in each, unless a recipe overrides this."""
        return self

    def sgd(self, examples: int, epochs: int) -> Sgd:
        """The optimiser's options that suit this recipe and a data set of this size."""
        return Sgd.suited(examples, epochs)

    def answering(self, model: nn.Module) -> nn.Module:
        """The module whose class scores are measured under noise: the trained one, unless that is only a part of it."""
        return model

    def classes(self, data: Dataset) -> int:
        """Outputs of the network: as many as the data has classes, unless labels are something else."""
        return data.num_classes

    def options(self) -> dict[str, Any]:
        """The recipe as plain data: its fields but for those that are held."""
        names = [field.name for field in dataclasses.fields(self) if field.name not in self.held]  # type: ignore[arg-type]
        return {"name": self.name} | {name: getattr(self, name) for name in names}

    def typed(self) -> dict[str, Any]:
        """The options that can be typed, as in --set epsilon=0.5."""
        return {name: value for name, value in self.options().items() if name not in ("name", *self.held, *self.own)}

    def check(self, smoothing: Smoothing) -> None:
        """Refuse noise that this recipe is not defined for."""
        if smoothing.base not in self.bases or (len(smoothing.weights) != 1 and not self.mixtures):
            raise ArgumentError(
                f"expected {' or '.join(self.bases)} noise with recipe {self.name}, got {type(smoothing).__name__}"
            )


def noise_like(x: Tensor, smoothing: Smoothing, copies: int = 1) -> Tensor:
    """Noise for `copies` copies of each input, from torch's global generator. x: `b x *shape` -> `(copies b) x *shape`.

    Copies of one input are b apart: reshape to `copies x b x ...` to average over them.
    """
    x = torch.cat([x] * copies) if copies > 1 else x
    eps = torch.randn_like(x) if smoothing.base == "normal" else torch.rand_like(x).mul_(2).sub_(1)
    return eps.mul_(smoothing.scale(x))


def mean_probabilities(logits: Tensor, copies: int) -> Tensor:
    """Mean softmax over the copies of each input. logits: `(copies b) x k` -> `b x k`."""
    return logits.softmax(1).view(copies, -1, logits.shape[1]).mean(0)
