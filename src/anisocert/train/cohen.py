"""Noise augmentation (Cohen et al. 2019)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe


@dataclass(frozen=True)
class Cohen(Recipe):
    """Cross-entropy on inputs with the noise that will smooth them."""

    name = "cohen"

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """CE(f(x + eps), y)."""
        return F.cross_entropy(model(noisy(x, smoothing)), y)


def noisy(x: Tensor, smoothing: Smoothing) -> Tensor:
    """One noisy copy of each input, from torch's global generator. x: `b x *shape`."""
    theta = torch.from_numpy(smoothing.theta.copy()).to(x.device)
    eps = torch.randn_like(x) if smoothing.base == "normal" else 2 * torch.rand_like(x) - 1
    return x + theta * eps
