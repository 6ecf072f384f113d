"""The model as it was given: a frozen copy, its device and hash, and errors from inside it in our words."""

import copy
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from anisocert.engine.numerics import Precision, out_of_memory
from anisocert.errors import AnisocertError, ArgumentError, ModelError

Classifier = nn.Module | Callable[[Tensor], Tensor]


def frozen(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy of a model in evaluation mode, on a device: what the caller does to the original changes no vote."""
    training = [name or type(model).__name__ for name, m in model.named_modules() if m.training]
    if training:
        raise ModelError(f"expected a model in evaluation mode, got training mode in {training[0]}: call model.eval()")
    try:
        return copy.deepcopy(model).to(device).requires_grad_(False)
    except (TypeError, RuntimeError) as error:
        if out_of_memory(error):
            raise
        raise ModelError(
            f"expected a model that copy.deepcopy can copy, got {type(model).__name__}: {error}"
        ) from error


def home(model: Classifier) -> torch.device:
    """The device a model's weights are on."""
    if isinstance(model, nn.Module):
        for tensor in [*model.parameters(), *model.buffers()]:
            return tensor.device
    return torch.device("cpu")


def usable(device: torch.device | str) -> torch.device:
    """A device that is there; "cuda" as the card it means now, so that devices compare."""
    try:
        found = torch.device(device)
        return torch.empty(0, device=found).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ArgumentError(f"expected a device that this torch can use, got {str(device)!r} ({reason})") from error


def _plain(value: object) -> bool:
    """Whether a value is a setting that reads the same in every process."""
    if isinstance(value, tuple | list):
        return all(_plain(one) for one in value)
    return value is None or isinstance(value, bool | int | float | str)


def hash_of(model: Classifier, precision: Precision | None) -> str:
    """SHA-256 of classes, their settings, state, buffers and precision: equal where votes mean the same classifier."""
    assert isinstance(model, nn.Module)
    digest = hashlib.sha256(f"{precision}".encode())
    for name, module in model.named_modules():
        settings = sorted((key, value) for key, value in vars(module).items() if key != "training" and _plain(value))
        digest.update(f" {name}: {type(module).__module__}.{type(module).__qualname__} {settings!r}".encode())
    for name, value in sorted((dict(model.named_buffers()) | dict(model.state_dict())).items()):
        if not isinstance(value, Tensor):  # a module's extra state
            digest.update(f"{name} {value!r}".encode())
            continue
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def taking(shape: tuple[int, ...]) -> Iterator[None]:
    """For a network's first call with inputs of a shape: whatever it raises there, most often it cannot take them."""
    try:
        yield
    except Exception as error:
        if isinstance(error, AnisocertError) or out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or repr(error)
        raise ModelError(f"expected a network that takes inputs of shape {shape}, got: {reason}") from error
