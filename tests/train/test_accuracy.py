"""Noisy accuracy: how many inputs a network is given at once."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anisocert.data import Dataset
from anisocert.smoothing import Gaussian
from anisocert.train import noisy_accuracy


class Watching(nn.Module):
    """Answers class 0, and remembers the beginning of what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((len(x), x[:1, 0, 0, :4].clone()))
        return x.new_tensor([1.0, 0.0]).expand(len(x), 2)


@pytest.mark.parametrize(("side", "count", "calls"), [(32, 1200, [1000, 200]), (224, 150, [111, 39])])
def test_large_images_come_in_smaller_batches(side: int, count: int, calls: list[int]) -> None:
    y = np.arange(count) % 2
    data = Dataset("some", np.zeros((count, 3, side, side), np.uint8), y, np.arange(count), 2, (0.5,) * 3, (0.25,) * 3)
    model = Watching()
    assert noisy_accuracy(model, data, Gaussian(0.5), seed=3) == 0.5
    assert [rows for rows, _ in model.seen] == calls
    generator = torch.Generator().manual_seed(3)
    for rows, first in model.seen:
        torch.testing.assert_close(first, 0.5 * torch.randn((rows, 3, side, side), generator=generator)[:1, 0, 0, :4])
