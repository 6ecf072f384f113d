"""MACER (Zhai et al. 2020): training that maximises a differentiable certified radius, without attacks."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from anisocert.errors import ArgumentError
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe, mean_probabilities, noise_like
from anisocert.train.sgd import Sgd

FIRST_DECAY = 200 / 440  # of the paper's training


@dataclass(frozen=True)
class MACER(Recipe):
    """Cross-entropy of the mean softmax over noisy copies, and a hinge on the gap of a sharpened one.

    copies: noisy copies of each input; beta: sharpness of the softmax in the gap; gamma: gap beyond which no larger
    one is asked for; weight: of the hinge (the paper's lambda), for 16 copies: fewer need a smaller one, as theirs are
    larger steps on fewer inputs; start: share of the training before which it is 0.
    """

    copies: int = 16
    beta: float = 16.0
    gamma: float = 8.0
    weight: float = 12.0
    start: float = 0.0

    name = "macer"

    def __post_init__(self) -> None:
        if self.copies < 1 or self.beta <= 0 or self.gamma <= 0 or self.weight < 0 or not 0 <= self.start < 1:
            raise ArgumentError(
                f"expected copies >= 1, beta and gamma > 0, weight >= 0 and start in [0, 1), got {self.options()}"
            )

    @classmethod
    def for_sigma(cls, sigma: float) -> Self:
        """The paper's options for CIFAR-10 at a noise level: those of the nearest of 0.25, 0.5 and 1."""
        if sigma >= 0.75:
            return cls(weight=12.0, start=FIRST_DECAY)
        return cls(weight=4.0 if sigma >= 0.375 else 12.0)

    def sgd(self, examples: int, epochs: int) -> Sgd:
        """The paper's small steps: the sharpened softmax makes gradients beta times larger, and 0.05 diverges."""
        return Sgd(epochs, batch_size=64, learning_rate=0.01)

    def during(self, epoch: int, epochs: int) -> "MACER":
        """Without the hinge before its start."""
        return replace(self, weight=0.0) if epoch < self.start * epochs else self

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """(1/b) [sum -log p_y + weight (sigma/2) sum (gamma - xi)], the latter over correct inputs with |xi| <= gamma.

        p: mean softmax(f), xi = Phi^-1(q_1) - Phi^-1(q_2) of the two largest of q, mean softmax(beta f).
        """
        logits = model(torch.cat([x] * self.copies) + noise_like(x, smoothing, self.copies))
        answer = mean_probabilities(logits, self.copies).gather(1, y[:, None]).add(1e-10).log()
        leading, classes = mean_probabilities(self.beta * logits, self.copies).topk(2)
        first, second = leading.unbind(1)
        with torch.no_grad():
            counted = (classes[:, 0] == y) & (gap(first, second).abs() <= self.gamma)  # not where infinite or NaN
        # what is not counted gets harmless values first: the gradient of an infinite gap would be NaN even times 0
        xi = gap(torch.where(counted, first, 0.75), torch.where(counted, second, 0.25))
        hinge = torch.where(counted, self.gamma - xi, 0.0)
        sigma = float(smoothing.theta.mean())
        loss: Tensor = (-answer.sum() + self.weight * sigma / 2 * hinge.sum()) / len(x)
        return loss


def gap(first: Tensor, second: Tensor) -> Tensor:
    """Phi^-1(first) - Phi^-1(second), elementwise."""
    difference: Tensor = torch.special.ndtri(first) - torch.special.ndtri(second)
    return difference
