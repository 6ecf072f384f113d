"""Reading tensors from files, and putting them into a network: by name, never by position, never by running code."""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anisocert.durable import write_whole
from anisocert.errors import MissingExtraError, ModelError


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file and its metadata."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtraError("loading networks needs safetensors: pip install 'anisocert[cli]'") from error
    try:
        with safe_open(path, framework="pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return state, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise ModelError(f"expected a whole safetensors file at {path}, got: {error}") from error


def write_safetensors(path: Path, state: Mapping[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and metadata (under the key `anisocert`, as JSON), whole or not at all."""
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise MissingExtraError("saving networks needs safetensors: pip install 'anisocert[cli]'") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    # clone: tensors that share memory are refused by the format
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}
    content = save(plain, {"anisocert": json.dumps(metadata)})
    write_whole(path, lambda part: part.write_bytes(content))


def read_torch(path: Path) -> Any:
    """What `torch.save` wrote, as far as it is tensors and plain values; files that need code to be run are refused."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"expected tensors and plain values in {path}, got a file that is corrupt or holds other Python objects, "
            "which could run any code and are not loaded: save its state_dict() instead"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise ModelError(f"expected a whole file written by torch.save at {path}, got another ({error!r})") from error


def put(state: Mapping[str, Tensor], network: nn.Module, source: str) -> None:
    """Load weights by name, cast to the network's own types (so bfloat16 files work); the names must agree."""
    wanted = network.state_dict()
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}
    missing = sorted(wanted.keys() - state.keys() - counters)
    unknown = sorted(state.keys() - wanted.keys())
    if missing or unknown:
        raise ModelError(
            f"expected the weights of {type(network).__name__} in {source}, got "
            f"{len(missing)} missing ({', '.join(missing[:3])}) and {len(unknown)} unknown ({', '.join(unknown[:3])})"
        )
    for name, tensor in state.items():
        if tensor.shape != wanted[name].shape:
            shapes = f"{tuple(wanted[name].shape)} for {name} in {source}, got {tuple(tensor.shape)}"
            raise ModelError(f"expected shape {shapes}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelError(f"expected finite weights in {source}, got NaN or infinity in {name}")
    network.load_state_dict({**wanted, **{name: tensor.to(wanted[name].dtype) for name, tensor in state.items()}})
