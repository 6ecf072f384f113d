"""The model as it was given: a frozen copy, and its device."""

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from anisocert.engine.exported import expect_copied_whole, expect_evaluation
from anisocert.engine.numerics import out_of_memory
from anisocert.engine.wrapped import is_compiled, within
from anisocert.errors import ArgumentError, ModelError
from anisocert.inputs import told

Classifier = nn.Module | Callable[[Tensor], Tensor]
Module = TypeVar("Module", bound=nn.Module)
TAKEN = re.compile(r".* on grid (0|2\^-?\d+)", re.DOTALL)  # what name_of makes


def expect_classifier(model: object, model_id: object) -> None:
    """An error that names the remedy unless a model can be called, and can be named in hashes."""
    if not isinstance(model_id, str | None) or model_id == "":
        raise ArgumentError(f"expected model_id as a name, as in model_id='digits-3', got {told(model_id)}")
    if model_id is not None and TAKEN.fullmatch(model_id):
        raise ArgumentError(
            f"expected model_id as a name of your own, as in model_id='digits-3', got {model_id!r}, to which precision "
            "and grid were added already: leave them out"
        )
    if isinstance(model, nn.Module):
        return
    if isinstance(model, type):
        raise ArgumentError(f"expected model as a network, got {told(model)}: make one, as in {model.__name__}(...)")
    if isinstance(model, ExportedProgram):
        raise ArgumentError(f"expected model as a network, got {told(model)}: pass program.module()")
    if not callable(model):
        raise ArgumentError(f"expected model as a network, got {_no_network(model)}")
    if model_id is None:
        raise ArgumentError(
            f"expected model_id with a bare callable (its weights cannot be hashed), got {model!r} alone: give it a "
            "name that changes whenever its answers do, as in model_id='digits-3'"
        )


def _no_network(value: object) -> str:
    """What was given instead of a network, and how to get one from it."""
    if isinstance(value, str | Path):
        return f"{told(value)}: load it first, with model, _ = anisocert.models.load({str(value)!r})"
    if isinstance(value, Mapping):
        return f"{told(value)} of weights: put them into a network first, with network.load_state_dict(...)"
    if isinstance(value, tuple) and value and isinstance(value[0], nn.Module):
        return f"{told(value)} that begins with one: pass that, as in model, _ = anisocert.models.load(...)"
    if wrapped := of_estimator(value):
        return f"{told(value)}: pass {wrapped}"
    return told(value) + (": the model comes first, then x" if hasattr(value, "dtype") else "")


def of_estimator(given: object) -> str | None:
    """The network that an estimator of scikit-learn becomes; None for anything else."""
    scores = next((name for name in ("predict_proba", "decision_function") if hasattr(given, name)), None)
    if scores is None:
        return None
    return (
        f"an nn.Module whose forward(x) is torch.from_numpy(estimator.{scores}(x.flatten(1).cpu().numpy())).float(), "
        "with Isotropic() or Fixed() (--method isotropic or fixed), as it gives no gradients"
    )


def frozen(model: nn.Module, device: torch.device, named: bool) -> Classifier:
    """A copy of a model in evaluation mode, on a device: what the caller does to the original changes no vote.

    named: the caller named the model, and answers for it; if it cannot be copied, it runs like a bare callable.
    """
    while (inner := within(model)) is not None:
        replaced = "forward" in vars(model) and not is_compiled(model)  # where torch puts its own there
        if model._forward_hooks or model._forward_pre_hooks or replaced:
            raise ModelError(
                f"expected no hooks on {told(model)} around a module, nor a forward of its own: put them on the module"
            )
        model = inner
    expect_evaluation(model)
    expect_copied_whole(model)
    try:
        return own_copy(model, device)
    except ModelError as error:
        if named:
            return lambda x: model(x)
        raise ModelError(
            f"{error}, or name the network with model_id=... (--model-id NAME) and it runs uncopied"
        ) from error


def own_copy(model: Module, device: torch.device | None = None) -> Module:
    """A copy in evaluation mode that learns nothing, on a device if one is given; the model stays as it is."""
    try:
        # No backward pass may keep a weight that was made in inference mode; and without no_grad TorchScript's copy of
        # a weight is a result, with the original behind it.
        with torch.inference_mode(False), torch.no_grad():
            copied = copy.deepcopy(model)
            if _tensors(copied) & _tensors(model):
                raise TypeError("its copy shares weights with it")
            copied = copied.eval().to(device)
        for parameter in copied.parameters():  # TorchScript knows no requires_grad_ of modules
            parameter.requires_grad_(False)
        return copied
    except Exception as error:  # whatever the user's own classes raise; TorchScript's functions a PickleError
        if out_of_memory(error):
            raise
        raise ModelError(
            f"expected a model that copy.deepcopy can copy, got {type(model).__name__}: {error}. Give its class a "
            "__deepcopy__ that does"
        ) from error


def _tensors(model: nn.Module) -> set[int]:
    return {id(tensor) for tensor in (*model.parameters(), *model.buffers())}


def home(model: Classifier) -> torch.device:
    """The device a model's weights are on."""
    if isinstance(model, nn.Module):
        for tensor in [*model.parameters(), *model.buffers()]:
            return tensor.device
    return torch.device("cpu")


def usable(device: torch.device | str) -> torch.device:
    """A device that is available; "cuda" as the card it means now, so that devices compare."""
    try:
        parsed = torch.device(device)
        return torch.empty(0, device=parsed).device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ArgumentError(
            f"expected a device that this torch can use, got {str(device)!r}: {reason}; cpu is one"
        ) from error
