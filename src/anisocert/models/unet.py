"""A U-Net (Ronneberger et al. 2015) of residual blocks: images to images, seen at several scales."""

from collections.abc import Sequence
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.models.resnet import BasicBlock


class Scale(NamedTuple):
    """Channels, and blocks before and after those of the next scale; the last scale has none after."""

    width: int
    before: int
    after: int = 0


class UNet(nn.Module):
    """`b x inputs x h x w` to `b x outputs x h x w`; 0 until it learns. Each scale halves h and w once more."""

    def __init__(self, inputs: int, outputs: int, scales: Sequence[Scale]) -> None:
        super().__init__()
        width = scales[0].width
        self.first = nn.Sequential(nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.scales = _Scales(width, scales, 1)
        self.last = nn.Conv2d(width, outputs, 3, padding=1)
        for parameter in self.last.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        images: Tensor = self.last(self.scales(self.first(x)))
        return images


class _Scales(nn.Module):
    """One scale, with all that come after it inside."""

    def __init__(self, width_in: int, scales: Sequence[Scale], stride: int) -> None:
        super().__init__()
        (width, before, after), *rest = scales
        self.before = nn.Sequential(BasicBlock(width_in, width, stride), *_blocks(width, before - 1))
        self.inside = _Scales(width, rest, 2) if rest else None
        if rest:
            self.wider = nn.Conv2d(rest[0].width, 4 * width, 1, bias=False)
            self.norm = nn.BatchNorm2d(width)
            self.after = nn.Sequential(*_blocks(width, after))

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        if self.inside is None:
            return x
        inner = self.norm(F.pixel_shuffle(self.wider(self.inside(x)), 2))
        features: Tensor = self.after(F.relu(x + inner))
        return features


def _blocks(width: int, count: int) -> list[BasicBlock]:
    return [BasicBlock(width, width, 1) for _ in range(count)]
