"""The networks by name."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from anisocert.errors import ArgumentError, ModelError, expect_one_of
from anisocert.inputs import MOST_CLASSES
from anisocert.models.efficientnet_lite import efficientnet_lite0, efficientnet_lite1, efficientnet_lite2
from anisocert.models.normalize import Normalized, per_channel
from anisocert.models.resnet import resnet18, resnet18_imagenet, resnet18_paper, resnet20, resnet50, resnet110
from anisocert.models.small_cnn import SmallCNN
from anisocert.models.weights import OWN
from anisocert.models.wide_resnet import wrn40_2

ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "small-cnn": SmallCNN,
    "resnet18": resnet18,
    "resnet18-paper": resnet18_paper,
    "resnet18-imagenet": resnet18_imagenet,
    "resnet20": resnet20,
    "resnet50": resnet50,
    "resnet110": resnet110,
    "wrn-40-2": wrn40_2,
    "efficientnet-lite0": efficientnet_lite0,
    "efficientnet-lite1": efficientnet_lite1,
    "efficientnet-lite2": efficientnet_lite2,
}
MOST_CHANNELS = 100_000  # a shape may claim more than torch can count


def build(architecture: str, num_classes: int, mean: Sequence[float], std: Sequence[float]) -> Normalized:
    """A fresh network of a named architecture, with its normalisation inside; one value of mean and std per channel."""
    expect_one_of("architecture", architecture, ARCHITECTURES)
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or not 2 <= num_classes <= MOST_CLASSES:
        raise ArgumentError(
            f"expected num_classes, a whole number from 2 to {MOST_CLASSES:,}, got {str(num_classes)[:100]}"
        )
    per_channel(mean, std)
    network = ARCHITECTURES[architecture](num_classes=num_classes, channels=len(mean))
    return Normalized(network, mean, std, architecture).float()  # whatever torch's default is


def suited(shape: tuple[int, ...]) -> str:
    """The architecture for inputs of this shape, `channels x height x width`, if none is named."""
    if len(shape) != 3:
        raise ArgumentError(
            f"expected arch, a network that takes inputs of shape {shape}, got none: ours take images; train "
            "your own, with noise of that sigma added to each batch"
        )
    channels, longer = shape[0], max(shape[1:])
    return "small-cnn" if longer <= 28 and channels == 1 else "resnet18" if longer <= 64 else "resnet50"


def recognize(state: Mapping[str, Tensor]) -> tuple[str, int, int]:
    """Architecture, number of classes and of channels of the network whose weights these are, by names and shapes."""
    got = f"keys {_few(state)}"
    for name, architecture in ARCHITECTURES.items():
        stem, head = (state.get(weight) for weight in _ends(architecture))
        if stem is None or head is None or stem.dim() != 4 or head.dim() != 2:
            continue
        num_classes, channels = head.shape[0], stem.shape[1]
        if not 2 <= num_classes <= MOST_CLASSES or not 1 <= channels <= MOST_CHANNELS:
            raise ModelError(
                f"expected the weights of a classifier of images, got {num_classes} classes and {channels} channels"
            )
        if _shapes(_without_memory(architecture, num_classes, channels).state_dict()) == _shapes(state):
            return name, num_classes, channels
        got = "other names or shapes"
    raise ModelError(f"expected the weights of one of {', '.join(ARCHITECTURES)}, got {got}: {OWN}")


@cache
def _ends(architecture: Callable[..., nn.Module]) -> tuple[str, str]:
    """Names of the first convolution's weights, which tell the channels, and of the last layer's, the classes."""
    dims = {name: weight.dim() for name, weight in _without_memory(architecture, 2, 1).named_parameters()}
    convolutions, layers = ([name for name in dims if dims[name] == count] for count in (4, 2))
    return convolutions[0] if convolutions else "", layers[-1] if layers else ""


def _without_memory(architecture: Callable[..., nn.Module], num_classes: int, channels: int) -> nn.Module:
    with torch.device("meta"):
        return architecture(num_classes=num_classes, channels=channels)


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """What must agree; the step counters of batch norms are absent from old files and not used by any forward pass."""
    return {name: tensor.shape for name, tensor in state.items() if not name.endswith("num_batches_tracked")}


def _few(state: Mapping[str, Tensor]) -> str:
    names = sorted(state)
    return ", ".join(names[:4])[:200] + (f" and {len(names) - 4} more" if len(names) > 4 else "")
