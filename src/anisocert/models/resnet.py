"""Residual networks (He et al. 2016) with torchvision's key names, for 32x32 images and for ImageNet.

`stem="imagenet"` is the 7x7/2 convolution and max-pool; `stem="cifar"` one 3x3 convolution. The ANCER paper's CIFAR-10
"ResNet18" is the ImageNet stem without its batch norm (`stem_norm=False`), on 32x32 inputs. ResNet20 and ResNet110 are
He et al.'s own CIFAR networks, three stages that begin 16 channels wide, as Cohen et al. (2019) and others train them.
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
    """Stages of `block`, `depths[i]` blocks each; stage i is width * 2^i wide. x: `b x channels x h x w`."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, ...],
        num_classes: int,
        channels: int,
        stem: Literal["imagenet", "cifar"] = "imagenet",
        stem_norm: bool = True,
        width: int = 64,
    ) -> None:
        super().__init__()
        self.stem, self.stages = stem, len(depths)
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width) if stem_norm else nn.Identity()
        width_in = width
        for i, depth in enumerate(depths):
            blocks = []
            for j in range(depth):
                blocks.append(block(width_in, width * 2**i, stride=2 if i > 0 and j == 0 else 1))
                width_in = width * 2**i * block.expansion
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(width_in, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        x = F.relu(self.bn1(self.conv1(x)))
        if self.stem == "imagenet":
            x = F.max_pool2d(x, 3, 2, 1)
        for i in range(self.stages):
            x = getattr(self, f"layer{i + 1}")(x)
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


def resnet18(num_classes: int, channels: int) -> ResNet:
    """ResNet18 with the 3x3 stem: the stronger choice for 32x32 images."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, channels, stem="cifar")


def resnet18_paper(num_classes: int, channels: int) -> ResNet:
    """The ANCER paper's CIFAR-10 network: ImageNet stem, no first batch norm. 11.2 M parameters."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, channels, stem_norm=False)


def resnet18_imagenet(num_classes: int, channels: int) -> ResNet:
    """ResNet18 for ImageNet, as in torchvision."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, channels)


def resnet50(num_classes: int, channels: int) -> ResNet:
    """ResNet50 for ImageNet, as in torchvision."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes, channels)


def resnet20(num_classes: int, channels: int) -> ResNet:
    """He et al.'s 20-layer CIFAR network. 0.27 M parameters."""
    return ResNet(BasicBlock, (3, 3, 3), num_classes, channels, stem="cifar", width=16)


def resnet110(num_classes: int, channels: int) -> ResNet:
    """He et al.'s 110-layer CIFAR network, that of Cohen et al., Salman et al. and MACER. 1.73 M parameters."""
    return ResNet(BasicBlock, (18, 18, 18), num_classes, channels, stem="cifar", width=16)
