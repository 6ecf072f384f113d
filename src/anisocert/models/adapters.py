"""A network made to fit: inputs in the shape that it takes, and scores taken out of what it returns."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anisocert.engine.first_call import taking
from anisocert.engine.given import home
from anisocert.engine.probe import probe_inputs
from anisocert.engine.returned import Part, likely, part, parts, remedy, width
from anisocert.errors import ModelError
from anisocert.inputs import told

Shape = tuple[int, ...]
Declared = tuple[int | str | None, ...]  # sizes that a file leaves open have names or none
FLAT, CHANNELS_LAST = "flat", "channels-last"
LOGITS = "logits"
LARGEST_TRIAL = 1 << 24  # values of an input: larger ones are tried only when votes are counted


class Reshaped(nn.Module):
    """A network that takes inputs in another shape: `network(x as b x *shape)`.

    channels_last: `c x h x w` becomes `h x w x c` first. Each value stays as it is, so regions and noise do too.
    """

    def __init__(self, network: nn.Module, shape: Sequence[int], channels_last: bool = False) -> None:
        super().__init__()
        self.training = getattr(network, "training", False)  # a wrapper is in the mode of what it wraps
        self.network, self.shape, self.channels_last = network, tuple(shape), channels_last

    def forward(self, x: Tensor) -> Any:
        """What the network returns for `x`."""
        moved = x.movedim(1, -1) if self.channels_last else x
        return self.network(moved.reshape(x.shape[0], *self.shape))  # len(x) could not be traced


class ScoresOf(nn.Module):
    """The scores in what a network returns: its attribute or key `part`, or the element at that position."""

    def __init__(self, network: nn.Module, part: Part) -> None:
        super().__init__()
        self.training = getattr(network, "training", False)  # a wrapper is in the mode of what it wraps
        self.network, self.part = network, part

    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x`."""
        scores: Tensor = part(self.network(x), self.part)
        return scores


class SeveralError(ModelError):
    """Several of the things that a network returns may be its scores; the number of classes may tell which."""


@dataclass(frozen=True, eq=False)
class Adapted:
    """A network that fits, what was done to make it so, in words, and its number of classes where that was seen."""

    model: nn.Module
    notes: tuple[str, ...] = ()
    num_classes: int | None = None


def adapt(
    model: nn.Module, shape: Shape, layout: str | None = None, takes: Declared | None = None, classes: int | None = None
) -> Adapted:
    """The network for inputs of a shape. layout: "flat", "channels-last", or None to follow what its file declares.

    takes: the shape that it declares. classes: their number, where it is known.
    """
    if not shape or min(shape) < 1 or math.prod(shape) > LARGEST_TRIAL:
        return Adapted(model)
    reshaped = _reshaped(model, shape, layout, takes)
    notes = [] if reshaped is model else [_told(reshaped, shape)]
    output = _tried(reshaped, shape)
    if output is None or isinstance(output, Tensor):
        return Adapted(reshaped, tuple(notes), width(output))
    place = _where(output, classes)
    columns = width(part(output, place))
    reason = f", the one of {columns} columns" if place != LOGITS and len(likely(parts(output))) > 1 else ""
    notes.append(f"its scores are {_named(place)} in the {type(output).__name__} that it returns{reason}")
    return Adapted(ScoresOf(reshaped, place).eval(), tuple(notes), columns)


def _reshaped(model: nn.Module, shape: Shape, layout: str | None, takes: Declared | None) -> nn.Module:
    """The network behind a change of shape, or itself where it takes inputs as they are."""
    if layout == CHANNELS_LAST and len(shape) < 2:
        raise ModelError(f"expected inputs with channels for layout channels-last, got inputs of shape {shape}")
    if layout in (FLAT, CHANNELS_LAST):
        moved = (*shape[1:], shape[0]) if layout == CHANNELS_LAST else (math.prod(shape),)
        target = moved if takes is None or _agree(takes, moved) else _sizes(takes, shape)
        return Reshaped(model, target, layout == CHANNELS_LAST).eval()
    if takes is None or _agree(takes, shape):
        return model
    if len(shape) == len(takes) == 3 and _agree(takes, moved := (*shape[1:], shape[0])):
        return Reshaped(model, moved, channels_last=True).eval()
    target = _sizes(takes, shape)
    if any(sum(size > 1 for size in sizes) > 2 for sizes in (shape, target)):
        raise ModelError(
            f"expected a network that takes inputs of shape {shape}, got one that takes {_by(takes)}: their values may "
            "be in two orders, so say which: layout 'flat' (--layout flat) keeps channel after channel, "
            "'channels-last' (--layout channels-last) puts the channels of each pixel together"
        )
    return Reshaped(model, target).eval()


def _agree(takes: Declared, shape: Shape) -> bool:
    pairs = zip(takes, shape, strict=False)
    return len(takes) == len(shape) and all(
        not isinstance(declared, int) or declared == size for declared, size in pairs
    )


def _sizes(takes: Declared, shape: Shape) -> Shape:
    """What a network takes, in numbers; an error unless that is as many values as an input has."""
    sizes = tuple(size for size in takes if isinstance(size, int))
    if len(sizes) < len(takes) or math.prod(sizes) != math.prod(shape):
        raise ModelError(
            f"expected a network that takes inputs of shape {shape}, got one that takes {_by(takes)}: prepare the data "
            "as it was prepared for the network, in an .npz, or wrap the network in a package.module:function"
        )
    return sizes


def _told(reshaped: nn.Module, shape: Shape) -> str:
    assert isinstance(reshaped, Reshaped)
    order = ", channels last" if reshaped.channels_last else ""
    return f"inputs of {_by(shape)} are given to it as {_by(reshaped.shape)}{order}, which it takes"


def _by(sizes: Declared) -> str:
    return " x ".join("?" if size is None else str(size) for size in sizes) or "no stated shape"


def _tried(model: nn.Module, shape: Shape) -> Any:
    """What a network returns for two inputs; None where it cannot be copied, as a call may change it."""
    try:
        trial = copy.deepcopy(model)  # the hash is of a network that was never called
    except Exception:  # anyone's code; the engine says what to do about it
        return None
    x = torch.from_numpy(probe_inputs(shape)[:2]).to(home(trial))
    with torch.no_grad(), taking(trial.shape if isinstance(trial, Reshaped) else shape, trial):
        return trial(x)


def _where(output: Any, classes: int | None) -> Part:
    """Where the scores are in what a network returned; an error unless that is beyond doubt."""
    inside = parts(output)
    if isinstance(getattr(output, LOGITS, inside.get(LOGITS)), Tensor):
        return LOGITS
    fit = likely(inside, classes)
    if len(fit) == 1 and isinstance(output, Mapping | tuple | list):  # an object's attributes may mean anything
        return fit[0]
    kind = SeveralError if len(fit) > 1 else ModelError
    raise kind(f"expected the model to return scores, got {told(output)}{remedy(output, classes)}")


def _named(place: Part) -> str:
    return f"{place!r}" if isinstance(place, str) else f"element {place}"
