"""Networks and their files; any `nn.Module` of the user's works as well."""

from anisocert.models.checkpoint import ARCHITECTURES, build, load, save
from anisocert.models.normalize import CIFAR10_MEAN, CIFAR10_STD, Normalized
from anisocert.models.resnet import ResNet, resnet18, resnet18_paper, resnet50
from anisocert.models.small_cnn import SmallCNN

__all__ = [
    "ARCHITECTURES",
    "CIFAR10_MEAN",
    "CIFAR10_STD",
    "Normalized",
    "ResNet",
    "SmallCNN",
    "build",
    "load",
    "resnet18",
    "resnet18_paper",
    "resnet50",
    "save",
]
