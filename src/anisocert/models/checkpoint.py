"""Networks on disk: safetensors with everything needed to build the network again in its metadata."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from anisocert.errors import ArgumentError, MissingExtraError, ModelError
from anisocert.models.normalize import Normalized
from anisocert.models.resnet import resnet18, resnet18_paper, resnet50
from anisocert.models.small_cnn import SmallCNN

ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "small-cnn": SmallCNN,
    "resnet18": resnet18,
    "resnet18-paper": resnet18_paper,
    "resnet50": resnet50,
}


def build(architecture: str, num_classes: int, mean: tuple[float, ...], std: tuple[float, ...]) -> Normalized:
    """A fresh network of a named architecture, with its normalisation inside."""
    if architecture not in ARCHITECTURES:
        raise ArgumentError(f"expected an architecture of {', '.join(ARCHITECTURES)}, got {architecture!r}")
    return Normalized(ARCHITECTURES[architecture](num_classes=num_classes), mean, std)


def save(model: nn.Module, path: Path, metadata: dict[str, Any]) -> None:
    """Write weights and metadata to a safetensors file, whole or not at all."""
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise MissingExtraError("saving networks needs safetensors: pip install 'anisocert[cli]'") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, part, {"anisocert": json.dumps(metadata)})
    part.replace(path)


def load(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network in a file written by `save`, in evaluation mode, and its metadata."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtraError("loading networks needs safetensors: pip install 'anisocert[cli]'") from error
    try:
        with safe_open(path, framework="pt") as file:
            described = (file.metadata() or {}).get("anisocert")
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"expected a readable safetensors file at {path}, got: {error}") from error
    if described is None:
        raise ModelError(f"expected anisocert's metadata in {path}, got a file without it")
    metadata: dict[str, Any] = json.loads(described)
    model = build(metadata["architecture"], metadata["num_classes"], tuple(metadata["mean"]), tuple(metadata["std"]))
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ModelError(f"expected the weights of {metadata['architecture']} in {path}, got: {error}") from error
    return model.eval(), metadata
