"""Consistency regularisation (Jeong and Shin 2020): noisy copies of an input must agree with their mean."""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.errors import ArgumentError
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe, noise_like

SMALL = 0.25  # sigma up to which the paper uses twice the weight


@dataclass(frozen=True)
class Consistency(Recipe):
    """Cross-entropy of noisy copies, how far each is from their mean, and how unsure the mean is.

    copies: noisy copies of each input; weight: of the divergence (the paper's lambda); entropy: weight of the mean's
    entropy (its eta).
    """

    copies: int = 2
    weight: float = 10.0
    entropy: float = 0.5

    name = "consistency"
    bases = ("normal", "uniform")
    mixtures = True

    def __post_init__(self) -> None:
        if self.copies < 2 or self.weight < 0 or self.entropy < 0:
            raise ArgumentError(f"expected copies >= 2, weight >= 0 and entropy >= 0, got {self.options()}")

    @classmethod
    def for_sigma(cls, sigma: float) -> Self:
        """The paper's options for CIFAR-10."""
        return cls(weight=20.0 if sigma <= SMALL else 10.0)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """(1/m) sum_i [-log p_y(x + u_i) + weight KL(mean || p(x + u_i))] + entropy H(mean), in one batch."""
        scores = model(torch.cat([x] * self.copies) + noise_like(x, smoothing, self.copies))
        log_p = scores.log_softmax(1)
        mean = log_p.exp().view(self.copies, len(x), -1).mean(0)
        log_mean = mean.clamp_min(1e-20).log()
        unsure = -(mean * log_mean).sum(1).mean()
        cross = -(mean * log_p.view(self.copies, len(x), -1)).sum(2).mean()  # KL(mean || p_i) = cross - H(mean)
        right = F.nll_loss(log_p, y.repeat(self.copies))
        loss: Tensor = right + self.weight * (cross - unsure) + self.entropy * unsure
        return loss
