"""Networks on disk: safetensors with everything needed to build the network again in its metadata."""

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from anisocert.errors import ModelError
from anisocert.models.architectures import build
from anisocert.models.weights import put, write_safetensors

NEEDED = ("architecture", "num_classes", "mean", "std")


def save(model: nn.Module, path: Path, metadata: dict[str, Any]) -> None:
    """Write weights and metadata to a safetensors file, whole or not at all.

    metadata: architecture, num_classes, mean and std, which `load` builds the network from; and what else is worth
    keeping: noise, norm, sigma, numerics, recipe.
    """
    missing = [name for name in NEEDED if name not in metadata]
    if missing:
        raise ModelError(f"expected {', '.join(NEEDED)} in the metadata of a network, got none of {', '.join(missing)}")
    write_safetensors(Path(path), model.state_dict(), metadata)


def from_metadata(state: dict[str, Tensor], described: str, path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network of a file that `save` wrote, and its metadata."""
    try:
        metadata: dict[str, Any] = json.loads(described)
        model = build(*(metadata[name] for name in NEEDED))
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"expected {', '.join(NEEDED)} in anisocert's metadata in {path}, got: {error!r}") from error
    put(state, model, str(path))
    return model, metadata
