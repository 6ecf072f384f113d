"""Input normalisation as the first layer, so that noise and regions live in the input's own units."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from anisocert.errors import ArgumentError

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Normalized(nn.Module):
    """A network behind per-channel normalisation: `network((x - mean) / std)`.

    mean, std: one value a channel; x: `b x c x ...`. architecture: the name that `build` knows it by, if any.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, network: nn.Module, mean: Sequence[float], std: Sequence[float], architecture: str | None = None
    ) -> None:
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise ArgumentError(f"expected mean and std > 0 with one value a channel, got {mean!r} and {std!r}")
        super().__init__()
        self.network, self.architecture = network, architecture
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        per_channel = (-1,) + (1,) * (x.dim() - 2)
        normalized: Tensor = self.network((x - self.mean.view(per_channel)) / self.std.view(per_channel))
        return normalized
