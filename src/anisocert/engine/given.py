"""The model as it was given: a frozen copy, its device, and errors from inside it in our words."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from anisocert.engine._content import is_compiled
from anisocert.engine.numerics import out_of_memory
from anisocert.errors import AnisocertError, ArgumentError, ModelError

Classifier = nn.Module | Callable[[Tensor], Tensor]


def frozen(model: nn.Module, device: torch.device, named: bool) -> Classifier:
    """A copy of a model in evaluation mode, on a device: what the caller does to the original changes no vote.

    named: the caller named the model, and answers for it; if it cannot be copied, it runs like a bare callable.
    """
    while is_compiled(model):  # a copy would lose the hooks on what torch.compile returned
        if model._forward_hooks or model._forward_pre_hooks:
            raise ModelError("expected no hooks on a module that torch.compile returned: put them on the module itself")
        model = cast(nn.Module, model._orig_mod)
    training = [name or type(model).__name__ for name, m in model.named_modules() if m.training]
    if training:
        raise ModelError(f"expected a model in evaluation mode, got training mode in {training[0]}: call model.eval()")
    try:
        with torch.no_grad():  # else TorchScript's copy of a weight is a result, with the original behind it
            copied = copy.deepcopy(model).to(device)
        for parameter in copied.parameters():  # TorchScript knows no requires_grad_ of modules
            parameter.requires_grad_(False)
        return copied
    except (TypeError, RuntimeError) as error:
        if out_of_memory(error):
            raise
        if named:
            return lambda x: model(x)
        raise ModelError(
            f"expected a model that copy.deepcopy can copy, got {type(model).__name__}: {error}. Give its class a "
            "__deepcopy__, or name the network with model_id=... (--model-id NAME) and it runs uncopied"
        ) from error


def home(model: Classifier) -> torch.device:
    """The device a model's weights are on."""
    if isinstance(model, nn.Module):
        for tensor in [*model.parameters(), *model.buffers()]:
            return tensor.device
    return torch.device("cpu")


def usable(device: torch.device | str) -> torch.device:
    """A device that is available; "cuda" as the card it means now, so that devices compare."""
    try:
        found = torch.device(device)
        return torch.empty(0, device=found).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ArgumentError(f"expected a device that this torch can use, got {str(device)!r} ({reason})") from error


@contextmanager
def taking(shape: tuple[int, ...]) -> Iterator[None]:
    """For a network's first call with inputs of a shape: an error there most often means that it cannot take them."""
    try:
        yield
    except Exception as error:
        if isinstance(error, AnisocertError) or out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or repr(error)
        raise ModelError(f"expected a network that takes inputs of shape {shape}, got: {reason}") from error
