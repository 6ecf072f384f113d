"""Residual networks (He et al. 2016) with torchvision's key names, for 32x32 images and for ImageNet.

`stem="imagenet"` is the 7x7/2 convolution and max-pool; `stem="cifar"` one 3x3 convolution. The ANCER paper's CIFAR-10
"ResNet18" is the ImageNet stem without its batch norm (`stem_norm=False`), on 32x32 inputs.
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(width_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Shape in, shape out (halved by the stride)."""
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions and a shortcut."""

    expansion = 4

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = _shortcut(width_in, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Shape in, shape out (halved by the stride)."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.downsample(x))


def _shortcut(width_in: int, width: int, stride: int) -> nn.Module:
    if stride == 1 and width_in == width:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))


class ResNet(nn.Module):
    """Four stages of `block`, `depths[i]` blocks each. x: `b x 3 x h x w`."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        num_classes: int = 10,
        stem: Literal["imagenet", "cifar"] = "imagenet",
        stem_norm: bool = True,
    ) -> None:
        super().__init__()
        self.stem = stem
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        else:
            self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64) if stem_norm else nn.Identity()
        width_in = 64
        for i, depth in enumerate(depths):
            width, blocks = 64 * 2**i, []
            for j in range(depth):
                blocks.append(block(width_in, width, stride=2 if i > 0 and j == 0 else 1))
                width_in = width * block.expansion
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(width_in, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        x = F.relu(self.bn1(self.conv1(x)))
        if self.stem == "imagenet":
            x = F.max_pool2d(x, 3, 2, 1)
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


def resnet18_paper(num_classes: int = 10) -> ResNet:
    """The ANCER paper's CIFAR-10 network: ImageNet stem, no first batch norm. 11.2 M parameters."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, stem="imagenet", stem_norm=False)


def resnet18(num_classes: int = 10) -> ResNet:
    """ResNet18 with the 3x3 stem: the stronger choice for 32x32 images."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, stem="cifar")


def resnet50(num_classes: int = 1000) -> ResNet:
    """ResNet50 for ImageNet."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes)
