"""The networks of the benchmarks by name, ours, `tv:NAME` of torchvision and `timm:NAME` of timm; trained ones by file.

All others have random weights, with batch norms that have seen data: without, the scores of a deep network hardly
depend on its input, and rounding would decide its votes. Speed does not depend on the values, unless a form of the
network in which it is fast is refused for what it rounds. Where answers matter, the digits' network is trained.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from anisocert.data import digits
from anisocert.models import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD, Normalized, build, load, save
from anisocert.smoothing import Smoothing
from anisocert.train import Cohen, Sgd, train

SMALL = ("resnet18-paper", "resnet18", "wrn-40-2", "resnet110")
LARGE = (
    "tv:resnet50", "tv:convnext_tiny", "tv:vit_s_16", "timm:vit_small_patch16_224", "tv:efficientnet_b0",
    "timm:mobilenetv3_large_100", "tv:swin_t", "timm:regnety_016", "tv:resnext50_32x4d",
)  # fmt: skip
OF_IMAGENET = ("resnet50", "efficientnet-lite0")  # ours, for its images and classes


def network_of(name: str) -> tuple[nn.Module, tuple[int, ...], int]:
    """A network in evaluation mode, the shape of its inputs, and its number of classes."""
    if Path(name).suffix:
        model, metadata = load(name)
        classes = metadata["num_classes"]
        return model.eval(), _shape(metadata["architecture"], classes), classes
    torch.manual_seed(0)
    library, _, arch = name.rpartition(":")
    classes = 1000 if library or arch in OF_IMAGENET else 10
    if library:
        model = Normalized(_theirs(library, arch), IMAGENET_MEAN, IMAGENET_STD)
    elif classes == 1000:
        model = build(arch, classes, IMAGENET_MEAN, IMAGENET_STD)
    else:
        mean, std = ((0.3,), (0.38,)) if arch == "small-cnn" else (CIFAR10_MEAN, CIFAR10_STD)
        model = build(arch, classes, mean, std)
    device, shape = "cuda" if torch.cuda.is_available() else "cpu", _shape(arch, classes)
    return _calibrated(model.to(device), shape).cpu(), shape, classes


def _shape(arch: str, classes: int) -> tuple[int, ...]:
    """Of the images of digits, ImageNet or CIFAR-10."""
    if arch == "small-cnn":
        return (1, 8, 8)
    return (3, 224, 224) if classes == 1000 else (3, 32, 32)


def digits_network(smoothing: Smoothing, epochs: int = 60) -> nn.Module:
    """Trained on the digits with this noise, as the demo does."""
    data = digits("train")
    torch.manual_seed(0)
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    train(model, data, Cohen(), smoothing, sgd=Sgd.suited(len(data), epochs), seed=0)
    return model


def random_file(
    folder: Path, num_classes: int, mean: Sequence[float], std: Sequence[float], arch: str = "small-cnn"
) -> Path:
    """A network with random weights, in a file."""
    path = folder / "random.safetensors"
    torch.manual_seed(0)
    metadata = {"architecture": arch, "num_classes": num_classes, "mean": mean, "std": std}
    save(build(arch, num_classes, mean, std).eval(), path, metadata)
    return path


def _theirs(library: str, arch: str) -> nn.Module:
    if library == "timm":
        import timm

        model: nn.Module = timm.create_model(arch, pretrained=False)
        return model
    import torchvision

    if arch == "vit_s_16":
        vit = torchvision.models.VisionTransformer(224, 16, 12, 6, 384, 1536)
        nn.init.normal_(vit.heads.head.weight, std=0.02)  # it begins with zeros
        return vit
    model = getattr(torchvision.models, arch)(weights=None)
    return model


def _calibrated(model: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    for layer in model.train().modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.momentum = None  # the mean over all batches
    with torch.no_grad():
        for _ in range(4):
            model(noisy_batch(64, shape).to(next(model.parameters()).device))
    return model.eval().requires_grad_(False)


def noisy_batch(rows: int, shape: tuple[int, ...], sigma: float = 0.25) -> Tensor:
    """Uniform images with noise."""
    return torch.rand(rows, *shape) + sigma * torch.randn(rows, *shape)
