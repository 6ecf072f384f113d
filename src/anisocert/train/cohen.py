"""Noise augmentation (Cohen et al. 2019)."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe, noise_like


@dataclass(frozen=True)
class Cohen(Recipe):
    """Cross-entropy on inputs with the noise that will smooth them."""

    name = "cohen"
    bases = ("normal", "uniform")
    mixtures = True

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """CE(f(x + eps), y)."""
        return F.cross_entropy(model(x + noise_like(x, smoothing)), y)
