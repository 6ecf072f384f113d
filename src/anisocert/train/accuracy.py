"""Accuracy of the base classifier under one draw of the noise: what training can improve and watch cheaply."""

import numpy as np
import torch
from torch import nn

from anisocert.data import Dataset
from anisocert.engine.numerics import Precision
from anisocert.engine.told import under
from anisocert.smoothing import Smoothing
from anisocert.train._augment import floats
from anisocert.train._mixed import Mixed

BATCH, VALUES = 1000, 1 << 24  # most inputs per call, and most numbers in them: a network needs many times their room


def noisy_accuracy(
    model: nn.Module,
    data: Dataset,
    smoothing: Smoothing,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    precision: Precision = "float32",
) -> float:
    """Share of examples whose noisy copy (one each) is classified correctly. `model` is in evaluation mode."""
    return Held(data, device).accuracy(Mixed(model, precision), smoothing, seed)


class Held:
    """A test set on a device."""

    def __init__(self, data: Dataset, device: torch.device | str) -> None:
        self.x = torch.from_numpy(np.ascontiguousarray(np.asarray(data.pixels))).to(device)  # bytes or floats
        self.y = torch.from_numpy(data.y).to(device)

    @torch.no_grad()
    def accuracy(self, model: Mixed, smoothing: Smoothing, seed: int) -> float:
        """See noisy_accuracy; one seed gives the same noise each time."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        correct = torch.zeros((), dtype=torch.int64, device=self.x.device)
        rows = max(1, min(BATCH, VALUES // self.x[0].numel()))
        for x, y in zip(self.x.split(rows), self.y.split(rows), strict=True):
            clean = floats(x)
            if smoothing.base == "normal":
                eps = torch.randn(clean.shape, generator=generator, device=x.device)
            else:
                eps = 2 * torch.rand(clean.shape, generator=generator, device=x.device) - 1
            scale = smoothing.scale(clean, generator)
            correct += (under(scale, model)(clean + scale * eps).argmax(1) == y).sum()
        return int(correct) / len(self.y)
