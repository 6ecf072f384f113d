"""Input normalisation as the first layer, so that noise and regions live in the input's own units."""

import torch
from torch import Tensor, nn

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class Normalized(nn.Module):
    """A network behind per-channel normalisation: `network((x - mean) / std)`.

    mean, std: one value a channel; x: `b x c x ...`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        per_channel = (-1,) + (1,) * (x.dim() - 2)
        normalized: Tensor = self.network((x - self.mean.view(per_channel)) / self.std.view(per_channel))
        return normalized
