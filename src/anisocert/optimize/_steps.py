"""Steps of gradient ascent, as torch.optim has them; importing that loads a compiler, for more than a second."""

import math

import torch
from torch import Tensor


class Plain:
    """The slope times a rate. value: what moves, in place."""

    def __init__(self, value: Tensor, rate: float) -> None:
        self.value, self.rate = value, rate

    def __call__(self, slope: Tensor) -> None:
        self.value.add_(slope, alpha=self.rate)


class Adam(Plain):
    """Kingma and Ba (2015), with their constants."""

    def __init__(self, value: Tensor, rate: float) -> None:
        super().__init__(value, rate)
        self.mean, self.square, self.steps = torch.zeros_like(value), torch.zeros_like(value), 0

    def __call__(self, slope: Tensor) -> None:
        self.steps += 1
        self.mean.lerp_(slope, 1 - 0.9)
        self.square.mul_(0.999).addcmul_(slope, slope, value=1 - 0.999)
        size = (self.square.sqrt() / math.sqrt(1 - 0.999**self.steps)).add_(1e-8)
        self.value.addcdiv_(self.mean, size, value=self.rate / (1 - 0.9**self.steps))
