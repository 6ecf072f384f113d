"""Wide residual networks (Zagoruyko and Komodakis 2016): batch norm and ReLU come before each convolution."""

import torch.nn.functional as F
from torch import Tensor, nn


class WideBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which starts after the first batch norm where the shape changes."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(width_in)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.convShortcut = nn.Conv2d(width_in, width, 1, stride, bias=False) if width_in != width else None

    def forward(self, x: Tensor) -> Tensor:
        """Shape in, shape out (halved by the stride)."""
        out = F.relu(self.bn1(x))
        shortcut = x if self.convShortcut is None else self.convShortcut(out)
        return self.conv2(F.relu(self.bn2(self.conv1(out)))) + shortcut  # type: ignore[no-any-return]


class WideStage(nn.Module):
    """Blocks of one width; the first may halve the image."""

    def __init__(self, depth: int, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        first = WideBlock(width_in, width, stride)
        self.layer = nn.Sequential(first, *(WideBlock(width, width, 1) for _ in range(depth - 1)))

    def forward(self, x: Tensor) -> Tensor:
        """The blocks, in order."""
        return self.layer(x)  # type: ignore[no-any-return]


class WideResNet(nn.Module):
    """Three stages of `(depth - 4) / 6` blocks, 16, 32 and 64 channels times `widen`. x: `b x channels x h x w`."""

    def __init__(self, depth: int, widen: int, num_classes: int, channels: int) -> None:
        super().__init__()
        blocks, widths = (depth - 4) // 6, (16 * widen, 32 * widen, 64 * widen)
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.block1 = WideStage(blocks, 16, widths[0], stride=1)
        self.block2 = WideStage(blocks, widths[0], widths[1], stride=2)
        self.block3 = WideStage(blocks, widths[1], widths[2], stride=2)
        self.bn1 = nn.BatchNorm2d(widths[2])
        self.fc = nn.Linear(widths[2], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        logits: Tensor = self.fc(F.relu(self.bn1(x)).mean(dim=(2, 3)))
        return logits


def wrn40_2(num_classes: int, channels: int) -> WideResNet:
    """WRN-40-2: 2.24 M parameters."""
    return WideResNet(40, 2, num_classes, channels)
