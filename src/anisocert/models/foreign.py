"""Other people's checkpoints: what is in the file, and which normalisation the code that wrote it keeps outside it.

Cohen et al. (2019) and Salman et al. (2019) save `Sequential(normalisation, network)` with the normalisation's numbers
in the code, so their files hold none; the two differ (Salman's only subtracts the mean) and the files do not say whose
they are. MACER (Zhai et al. 2020) saves a bare network that takes raw pixels, in a file like those of others whose
networks do not.
"""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from anisocert.errors import ModelError, expect_one_of
from anisocert.inputs import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD
from anisocert.models.normalize import LITE_MEAN, LITE_STD
from anisocert.models.weights import FLOATS, OWN, check_tensors

Layout = Literal["cohen", "salman", "macer", "flat", "channels-last"]
WHOSE = ("cohen", "salman", "macer")  # the others say how a network takes images, which ours need not be told
Channels = tuple[float, ...]

CONTAINERS = ("state_dict", "net", "model", "model_state_dict")
WRAPPERS = ("module.", "_orig_mod.", "network.", "model.")
ARCHITECTURES = {"cifar_resnet20": "resnet20", "cifar_resnet110": "resnet110", "resnet50": "resnet50"}
ONES = (1.0, 1.0, 1.0)
MOST_CHANNELS = 1 << 16


@dataclass(frozen=True)
class Foreign:
    """A checkpoint taken apart: weights under the network's own names, and what else the file says."""

    state: dict[str, Tensor]
    layout: Layout | None
    architecture: str | None
    mean: Channels | None
    std: Channels | None
    sequential: bool  # the network stood behind a normalisation that has no weights
    notes: tuple[str, ...] = ()


def take_apart(content: Any, source: str, layout: Layout | None) -> Foreign:
    """Weights and normalisation of a checkpoint. content: what the file held; layout: whose it is, where known."""
    if layout is not None:
        expect_one_of(f"layout of {source}", layout, WHOSE)
    if not isinstance(content, dict):
        raise ModelError(f"expected a state dict in {source}, got {type(content).__name__}; {OWN}")
    container = next((name for name in CONTAINERS if isinstance(content.get(name), dict)), None)
    tensors = content if container is None else content[container]
    state = {str(name): tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
    if not state or len(state) != len(tensors):
        raise ModelError(
            f"expected a state dict of tensors in {source}, got keys {', '.join(map(str, content))[:100]}; {OWN}"
        )
    check_tensors(state, source)
    state = _unwrapped(state)
    sequential = all(name.startswith("1.") for name in state)
    if sequential:
        state = _unwrapped({name.removeprefix("1."): tensor for name, tensor in state.items()})
    mean, std = _own(state, "mean"), _own(state, "std")
    architecture = ARCHITECTURES.get(str(content.get("arch"))) if container is not None else None
    notes = () if container is None else _others(content, container)
    return Foreign(state, layout, architecture, mean, std, sequential, notes)


def normalization(foreign: Foreign, architecture: str, source: str) -> tuple[Channels, Channels]:
    """Mean and standard deviation that belong to a checkpoint, or an error that says what is missing."""
    if foreign.mean is not None and foreign.std is not None:
        return foreign.mean, foreign.std
    imagenet = architecture == "resnet50"
    if foreign.layout == "cohen":
        return (IMAGENET_MEAN, IMAGENET_STD) if imagenet else (CIFAR10_MEAN, CIFAR10_STD)
    if foreign.layout == "salman":
        return (IMAGENET_MEAN if imagenet else CIFAR10_MEAN), ONES
    if foreign.layout == "macer":
        return (0.0, 0.0, 0.0), ONES
    if architecture.startswith("efficientnet-lite"):  # their weights are published for one normalisation alone
        return LITE_MEAN, LITE_STD
    if foreign.sequential:
        raise ModelError(
            f"expected layout (--layout) cohen or salman, or mean and std (--mean, --std), for {source}: it was saved "
            "behind a normalisation whose numbers are not in the file; Cohen's code divides by the standard deviation, "
            "Salman's does not"
        )
    raise ModelError(
        f"expected mean and std (--mean, --std) for {source}, got weights without normalisation: give the numbers the "
        "network was trained with, one per channel (0 and 1 if it takes raw pixels; or --layout macer, as MACER's do)"
    )


def _others(content: dict[Any, Any], container: str) -> tuple[str, ...]:
    """A line where a file holds several networks, as with an average of weights: it does not say which one is meant."""
    least = len(content[container])
    alternatives = [
        repr(name)
        for name, value in content.items()
        if name != container and isinstance(value, dict) and len(value) >= least
        if all(isinstance(tensor, Tensor) for tensor in value.values())
    ]
    remark = f"its weights are those of {container!r}, not of {', '.join(alternatives[:8])[:200]}"
    return (f"{remark}: to take others, save them in a file of their own",) if alternatives else ()


def _unwrapped(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without the prefixes of wrappers around the whole network (DataParallel, torch.compile, ours)."""
    while True:
        bare = {name: tensor for name, tensor in state.items() if name not in ("mean", "std")}
        prefix = next((p for p in WRAPPERS if bare and all(name.startswith(p) for name in bare)), None)
        if prefix is None:
            return state
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}


def _own(state: dict[str, Tensor], name: str) -> Channels | None:
    """Normalisation that is in the weights, as `Normalized` keeps it; taken out of them."""
    value = state.pop(name, None)
    if value is None:
        return None
    if value.dtype not in FLOATS or value.numel() > MOST_CHANNELS:
        got = f"{value.dtype} of shape {tuple(value.shape)}"
        raise ModelError(f"expected the {name} of a checkpoint as at most {MOST_CHANNELS:,} floats, got {got}")
    return tuple(value.double().flatten().tolist())
