"""SmoothAdv (Salman et al. 2019): adversarial training of the smoothed classifier."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.data import Dataset
from anisocert.errors import ArgumentError
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe, mean_probabilities, noise_like


@dataclass(frozen=True)
class SmoothAdv(Recipe):
    """Cross-entropy at the worst input that projected gradient descent finds for the mean softmax over noise.

    epsilon: l2 length of the attack; steps: of it; copies: noisy copies of each input, the same in attack and loss.
    warmup: epochs over which epsilon grows to its value. low, high: the range that attacked inputs stay in.
    """

    epsilon: float = 64 / 256
    steps: int = 10
    copies: int = 1
    warmup: int = 10
    low: float = 0.0
    high: float = 1.0

    name = "smoothadv"

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or self.steps < 1 or self.copies < 1 or self.warmup < 0 or self.low >= self.high:
            raise ArgumentError(
                f"expected epsilon > 0, steps and copies >= 1, warmup >= 0 and low < high, got {self.options()}"
            )

    def try_on(self, data: Dataset) -> None:
        """An error if inputs lie outside the range that attacked ones are kept in: the attack would only move them."""
        values = np.asarray(data.pixels)
        low, high = (0.0, 1.0) if values.dtype == np.uint8 else (float(values.min()), float(values.max()))
        if low < self.low or high > self.high:
            raise ArgumentError(
                f"expected inputs between low {self.low:g} and high {self.high:g}, where attacked ones are kept, got "
                f"{low:g} to {high:g} in {data.name}: give their range, as in --set low={math.floor(low)} --set "
                f"high={math.ceil(high)}"
            )

    def during(self, epoch: int, epochs: int) -> "SmoothAdv":
        """The attack's length grows linearly over the first epochs."""
        return replace(self, epsilon=self.epsilon * min(1.0, (epoch + 1) / max(1, self.warmup)))

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """mean_j CE(f(x + delta + eps_j), y)."""
        eps = noise_like(x, smoothing, self.copies)
        delta = self.attack(model, x, y, eps)
        return F.cross_entropy(model(self._copies(x + delta) + eps), y.repeat(self.copies))

    def attack(self, model: nn.Module, x: Tensor, y: Tensor, eps: Tensor) -> Tensor:
        """argmax over ||delta||_2 <= epsilon of -log mean_j p_y(x + delta + eps_j), from 0, in evaluation mode.

        eps: `(copies b) x *shape`. Returns `b x *shape`.
        """
        delta = torch.zeros_like(x)
        with _frozen(model):
            for _ in range(self.steps):
                delta.requires_grad_(True)
                mean = mean_probabilities(model(self._copies(x + delta) + eps), self.copies)
                loss = F.nll_loss(mean.clamp_min(1e-20).log(), y, reduction="sum")
                (gradient,) = torch.autograd.grad(loss, delta)
                with torch.no_grad():
                    step = gradient / _length(gradient).clamp_min(torch.finfo(x.dtype).tiny)
                    delta = delta + 2 * self.epsilon / self.steps * step
                    delta = (x + delta).clamp(self.low, self.high) - x
                    delta = delta * (self.epsilon / _length(delta).clamp_min(self.epsilon))
        return delta

    def _copies(self, x: Tensor) -> Tensor:
        return torch.cat([x] * self.copies) if self.copies > 1 else x


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and no gradients of the weights, which would be computed for nothing; then as before."""
    training = model.training
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval()
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:  # even if the attack fails: a step that cannot be captured is done again kernel by kernel
        for parameter in learned:
            parameter.requires_grad_(True)
        model.train(training)


def _length(x: Tensor) -> Tensor:
    """l2 length of each example, in a shape that divides it. x: `b x *shape`."""
    length: Tensor = x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))
    return length
