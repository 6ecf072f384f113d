"""A network's first call: what it raises there, in our words, with the remedy where the cause is plain."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from anisocert.engine.given import Classifier, home
from anisocert.engine.numerics import out_of_memory
from anisocert.errors import AnisocertError, ModelError

Shape = tuple[int, ...]
GREY, COLOUR = 1, 3
ROWS = 5  # of a trial: no number of channels, for which a convolution might take them
GUARD = "Guard failed: "  # what the module of an exported program says of inputs unlike those of the export
INDICES, BEYOND = "'indices'", "index out of range in self"  # what an embedding says of floats, and of noise on numbers
MULTIPLIED = "shapes cannot be multiplied"  # what a linear layer says of inputs of another size


@contextmanager
def taking(shape: Shape, model: Classifier) -> Iterator[None]:
    """For a network's first call with inputs of a shape: an error there most often means that it cannot take them."""
    if isinstance(model, nn.Module):
        _expect_float32(model)
    try:
        yield
    except Exception as error:
        if isinstance(error, AnisocertError) or out_of_memory(error):
            raise
        message = "" if isinstance(error, KeyError) else str(error)  # a KeyError's text is its key, and no more
        reason = message.partition("\n")[0] or repr(error)
        remedy = _of_call(reason)
        if not remedy and _takes_one(shape, model):
            raise ModelError(
                f"expected a network that takes a batch of inputs of shape {shape}, got one that takes one input at a "
                f"time ({reason}): keep the first axis, as in x.flatten(1) instead of x.view(1, -1), or call it for "
                "each, as in torch.stack([model(one).flatten() for one in x.split(1)])"
            ) from error
        remedy = remedy or _of_layout(shape, model)
        remedy = remedy or (_of_shapes(shape, model, reason) if isinstance(error, RuntimeError) else "")
        raise ModelError(f"expected a network that takes inputs of shape {shape}, got: {reason}{remedy}") from error


def _expect_float32(model: nn.Module) -> None:
    """An error if a weight has another precision: some would run, and not in the precision that is recorded."""
    for name, weight in model.named_parameters():
        if weight.is_floating_point() and weight.dtype != torch.float32:
            half = "; precision='bfloat16' (--precision bfloat16) computes in 16 bits" if weight.itemsize < 4 else ""
            raise ModelError(
                f"expected a network in float32, in which inputs come, got {str(weight.dtype)[6:]} in {name}: call "
                f"model.float(){half}"
            )


def _of_call(reason: str) -> str:
    """What is wrong with how it is called, or with the types inside it."""
    if "ScalarType BFloat16" in reason:
        return (
            ": numpy has no bfloat16; choose float32, by numerics=ac.Numerics(precision='float32') "
            "(--precision float32), or call .float() before .numpy()"
        )
    if GUARD in reason:
        return _of_export(reason)
    if INDICES in reason or BEYOND in reason:
        return (
            ": inputs come as floats, with noise, and cannot be indices: embed them first, and certify the rest of the "
            "network on what the embedding returns"
        )
    if "positional argument" in reason or "unexpected keyword" in reason:
        return ": it is called as model(x); wrap it in an nn.Module whose forward(x) calls it as it wants to be"
    mixed = "same dtype" in reason or "expected scalar type" in reason
    return ": inputs come in float32; call model.float(), and leave them so inside it" if mixed else ""


def _of_export(reason: str) -> str:
    """What to export otherwise."""
    if ".size()[0]" not in reason:
        return ": it was exported for inputs of another size"
    free = "torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))"
    return f": a number of rows is baked into it; export it with a free one, by {free}, where x has two rows or more"


def _takes_one(shape: Shape, model: Classifier) -> bool:
    """Whether it answers an input by itself, and not several at once."""
    x = torch.zeros(ROWS, *shape, device=home(model))
    alone = _returned(model, x[:1])
    return alone is not None and max(alone.shape, default=1) == alone.numel() > 1 and not _answers(model, x)


def _of_layout(shape: Shape, model: Classifier) -> str:
    """How images are to be turned for it, if it takes them then."""
    if len(shape) != 3 or not isinstance(model, nn.Module):
        return ""
    channels, height, width = shape
    x = torch.zeros(ROWS, *shape, device=home(model))
    if _answers(model, x):  # then it failed for another reason
        return ""
    last = f"anisocert.models.Reshaped(model, [{height}, {width}, {channels}], channels_last=True)"
    if _answers(model, x.movedim(1, -1)):
        return f": it takes images with their channels last, it seems: {last} (--layout channels-last)"
    signals = any(isinstance(module, nn.Conv1d) for module in model.modules())  # see _of_convolution
    if channels == GREY and not signals and _answers(model, x[:, 0]):
        return (
            ": it takes images without an axis of channels, it seems: "
            f"anisocert.models.Reshaped(model, [{height}, {width}]), or for an .npz --layout channels-first, by which "
            "they get none"
        )
    if _answers(model, x.flatten(1)):
        return _as_row(math.prod(shape))
    return ""


def _answers(model: Classifier, x: torch.Tensor) -> bool:
    """Whether it gives each input its row of scores."""
    scores = _returned(model, x)
    return scores is not None and scores.dim() == 2 and len(scores) == len(x)


def _returned(model: Classifier, x: torch.Tensor) -> torch.Tensor | None:
    """The tensor that it returns; None if it fails, or returns something else."""
    try:
        with torch.no_grad():
            returned: object = model(x)
    except Exception:  # anyone's code
        return None
    return returned if isinstance(returned, torch.Tensor) else None


def _of_shapes(shape: Shape, model: Classifier, reason: str) -> str:
    """What the first layer takes, if that is not what inputs are."""
    layers = model.modules() if isinstance(model, nn.Module) else ()
    first = next((layer for layer in layers if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)), None)
    if isinstance(first, nn.Linear):
        return _of_linear(shape, first.in_features, reason)
    if isinstance(first, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return _of_convolution(shape, first.in_channels, len(first.kernel_size))
    return ""


def _of_linear(shape: Shape, takes: int, reason: str) -> str:
    values = math.prod(shape)
    if values == takes:
        reached = MULTIPLIED in reason and len(shape) > 1  # else something failed before it, or its inputs are rows
        return _as_row(takes) if reached else ""
    mismatch = f": its first linear layer takes {takes} values, and an input has {values}"
    if len(shape) == 3 and (values, shape[0]) == (COLOUR * takes, COLOUR):
        return f"{mismatch}: colour images, and a network for grey ones"
    if len(shape) == 3 and (values * COLOUR, shape[0]) == (takes, GREY):
        return f"{mismatch}: grey images, and a network for colour ones"
    if len(shape) > 1 and values == takes * shape[0]:
        return f"{mismatch}: for several inputs at once call system.answers(x), not answer(x)"
    if len(shape) > 1 and takes % values == 0:
        return f"{mismatch}: if x is a single input, pass x[None]"
    return mismatch


def _as_row(values: int) -> str:
    row = f"anisocert.models.Reshaped(model, [{values}]) (--layout flat)"
    return f": it takes them as one row of values, it seems: {row}"


def _of_convolution(shape: Shape, channels: int, dimensions: int) -> str:
    sides, word = len(shape) - 1, "channel" if channels == 1 else "channels"
    mismatch = f": its first convolution takes {channels} {word} in {dimensions} dimensions"
    if sides == dimensions and shape[0] != channels:
        return f"{mismatch}, and inputs have {shape[0]}{_recoloured(shape, channels)}"
    if sides == dimensions - 1:
        return f"{mismatch}: if x is a single input, pass x[None]; if its inputs have no axis of channels, x[:, None]"
    if sides == dimensions + 1 and shape[:2] == (1, channels):
        return f"{mismatch}: if these are signals, n x channels x length in a file, say --layout channels-first"
    if (sides, dimensions) == (2, 1) and (shape[0], shape[-1]) == (1, channels):
        moved = "save x.transpose(0, 2, 1), and say --layout channels-first"
        return f"{mismatch}: if these are signals, n x length x channels in a file, {moved}"
    if sides == dimensions + 1:
        return f"{mismatch}: for several inputs at once call system.answers(x), not answer(x)"
    side = math.isqrt(math.prod(shape) // channels)
    if len(shape) == 1 and dimensions == 2 and channels * side * side == math.prod(shape):
        image = f"{channels}, {side}, {side}"
        return f"{mismatch}: pass x.reshape(-1, {image}), or anisocert.models.Reshaped(model, [{image}])"
    if sides == dimensions:
        return ": its layers may be made for another size of inputs"
    return mismatch


def _recoloured(shape: Shape, channels: int) -> str:
    if shape[-1] == channels and len(shape) > 1:
        return " on the first axis: move the last one there, with numpy.moveaxis(x, -1, 1)"
    if (shape[0], channels) == (GREY, COLOUR):
        return ": if it may see grey images, give it numpy.repeat(x, 3, 1)"
    if (shape[0], channels) == (COLOUR, GREY):
        return ": if it may see them in grey, give it x.mean(1, keepdims=True)"
    return ""
