"""What tells whether a call has changed a model: which tensors it has, what they hold, and what else it has."""

import array
import hashlib
from collections import deque
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

OWN = {*vars(nn.Module())}  # attributes that every module has
MADE = "_tensor_constant"  # those that torch.fx adds


def state(model: nn.Module) -> list[object]:
    """To be compared with that of the same model later."""
    seen = set[int]()
    tensors = [_noted(tensor, seen) for tensor in (*model.parameters(), *model.buffers())]
    attributes = [
        (name, _noted(value, seen))
        for module in model.modules()
        for name, value in vars(module).items()
        if name not in OWN and not name.startswith(MADE)
    ]
    return [*tensors, *attributes]


def _noted(value: Any, seen: set[int]) -> object:
    """seen: objects that were noted already."""
    if isinstance(value, int | float | str | bytes | None):
        return value
    if isinstance(value, Tensor):
        return id(value), None if value.is_inference() else value._version, _digest(value)
    if isinstance(value, np.ndarray | bytearray | array.array):
        return hashlib.blake2b(value.tobytes() if hasattr(value, "tobytes") else value).digest()
    if isinstance(value, fx.Proxy | nn.Module | type | FunctionType | ModuleType) or id(value) in seen:
        return id(value)
    seen.add(id(value))
    if isinstance(value, dict):
        return [(key, _noted(element, seen)) for key, element in value.items()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_noted(element, seen) for element in value]
    named = (getattr(kind, "__slots__", ()) for kind in type(value).__mro__)
    slots = [name for names in named for name in ([names] if isinstance(names, str) else names)]
    inside = getattr(value, "__dict__", {}) | {name: getattr(value, name) for name in slots if hasattr(value, name)}
    if inside:
        return id(value), [(name, _noted(attribute, seen)) for name, attribute in inside.items()]
    return id(value), repr(value)  # which tells how far a counter is


def _digest(tensor: Tensor) -> bytes | None:
    """Digest of a tensor that is no weight: its version does not count what is written to `tensor.data`."""
    if isinstance(tensor, nn.Parameter) or tensor.layout is not torch.strided:
        return None
    held = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    return hashlib.blake2b(held.data).digest()
