"""Stability training (Li et al. 2019), as Yang et al. (2020) use it for uniform noise."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.errors import ArgumentError
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe, noise_like


@dataclass(frozen=True)
class Stability(Recipe):
    """Cross-entropy on a noisy copy, whose answer must not differ from that on a second. weight: of the latter."""

    weight: float = 6.0

    name = "stability"
    bases = ("normal", "uniform")

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ArgumentError(f"expected weight >= 0, got {self.weight}")

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """-log p_y(x + u1) + weight KL(p(x + u1) || p(x + u2)); both copies go through the network as one batch."""
        first, second = model(torch.cat([x, x]) + noise_like(x, smoothing, copies=2)).log_softmax(1).chunk(2)
        divergence = F.kl_div(second, first, reduction="batchmean", log_target=True)
        return F.nll_loss(first, y) + self.weight * divergence
