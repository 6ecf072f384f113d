"""Networks on disk: safetensors with everything needed to build the network again in its metadata."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from anisocert.errors import ArgumentError, ModelError
from anisocert.models.architectures import build
from anisocert.models.coded import NETWORKS, PerCode
from anisocert.models.denoiser import KIND, Denoiser, expect_denoiser
from anisocert.models.denoiser import NEEDED as OF_DENOISERS
from anisocert.models.normalize import Normalized, per_channel
from anisocert.models.weights import check_fit, put, read_safetensors, write_safetensors
from anisocert.shell import shell_quote

Built = TypeVar("Built", Normalized, Denoiser)
NEEDED = ("architecture", "num_classes", "mean", "std")


def save(model: nn.Module, path: str | Path, metadata: dict[str, Any]) -> None:
    """Write weights and metadata to a safetensors file, completely or not at all.

    metadata: architecture, num_classes, mean and std, which `load` builds the network from; and what else is worth
    keeping: noise, norm, sigma, numerics, recipe. Of a denoiser: its `blueprint`, which `load_denoiser` builds it from.
    """
    if isinstance(model, Denoiser):
        expect_denoiser(metadata, Path(path))
        return write_safetensors(Path(path), model.state_dict(), metadata)
    missing = [name for name in NEEDED if name not in metadata]
    if missing:
        raise ModelError(f"expected {', '.join(NEEDED)} in the metadata of a network, got none of {', '.join(missing)}")
    write_safetensors(Path(path), model.state_dict(), metadata)


def described(source: str | Path) -> dict[str, Any]:
    """What a network's file says about it, its weights unread; empty for files that `save` did not write."""
    if Path(source).suffix != ".safetensors" or not Path(source).exists():
        return {}
    try:
        metadata = json.loads(read_safetensors(Path(source), weights=False)[1].get("anisocert", "{}"))
    except (ValueError, RecursionError):
        return {}  # loading the network will say what is wrong
    return metadata if isinstance(metadata, dict) else {}


def from_metadata(state: dict[str, Tensor], described: str, path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network of a file that `save` wrote, or those of a codebook's, and its metadata."""
    try:
        metadata: dict[str, Any] = json.loads(described)
        if isinstance(metadata, dict) and metadata.get("networks"):
            return _per_code(state, metadata["networks"], path)
        if isinstance(metadata, dict) and metadata.get("kind") == KIND:
            raise ModelError(
                f"expected a network in {path}, got a denoiser: give the network, and --denoise {shell_quote(path)}"
            )
        if isinstance(metadata, dict) and "codebook" in metadata:
            raise ModelError(
                f"expected a network in {path}, got a codebook: give the network, and --codebook {shell_quote(path)}"
            )
        arguments = [metadata[name] for name in NEEDED]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"expected {', '.join(NEEDED)} in anisocert's metadata in {path}, got: {repr(error)[:200]}"
        ) from error
    try:
        return _built(partial(build, *arguments), state, metadata, path), metadata
    except ArgumentError as error:
        raise ModelError(f"expected a network that can be built in {path}, got: {error}") from error


def load_denoiser(path: str | Path) -> tuple[Denoiser, dict[str, Any]]:
    """The denoiser of a file that `train --recipe denoiser` wrote, in evaluation mode, and its metadata."""
    path = Path(path)
    state, header = read_safetensors(path)
    try:
        metadata: dict[str, Any] = json.loads(header.get("anisocert", "{}"))
        expect_denoiser(metadata if isinstance(metadata, dict) else {}, path)
        make = partial(Denoiser, *(metadata[name] for name in OF_DENOISERS))
        return _built(make, state, metadata, path).eval(), metadata
    except (ArgumentError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ModelError(f"expected a denoiser that can be built in {path}, got: {str(error)[:200]}") from error


def _built(make: Callable[[], Built], state: dict[str, Tensor], metadata: dict[str, Any], path: Path) -> Built:
    """The network that a file describes, with its weights; an error unless the two agree."""
    with torch.device("meta"):  # what the metadata declares takes memory only once the weights agree with it
        check_fit(state, make(), str(path))
    model = make()
    put(state, model, str(path))
    mean, std = model.mean.flatten(), model.std.flatten()
    per_channel(mean.numpy(), std.numpy())
    for name, buffer in (("mean", mean), ("std", std)):  # readers see the metadata, the network computes with its own
        if not np.allclose(metadata[name], buffer.numpy(), rtol=1e-2, atol=1e-2):
            got = f"{metadata[name]} and {buffer.tolist()}"
            raise ModelError(f"expected one {name} in the metadata and the weights of {path}, got {got[:200]}")
    return model


def _per_code(state: dict[str, Tensor], entries: Any, path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The networks of a codebook's file, one per code. entries: what is known of each; they must be of one data set."""
    parts: dict[str, dict[str, Tensor]] = {str(k): {} for k in range(len(entries))}
    for name, tensor in state.items():
        if name in ("codes", "sigma"):
            continue
        k, _, inner = name.removeprefix(NETWORKS).partition(".")
        if not name.startswith(NETWORKS) or k not in parts:
            raise ModelError(f"expected weights of {len(entries)} networks in {path}, got {name[:100]}")
        parts[k][inner] = tensor
    pairs = [from_metadata(parts[str(k)], json.dumps(entry), path) for k, entry in enumerate(entries)]
    metadata = [entry for _, entry in pairs]
    common = {name: metadata[0][name] for name in NEEDED[1:]}
    if differing := [name for name in common if any(entry[name] != common[name] for entry in metadata)]:
        raise ModelError(f"expected networks of one data set in {path}, got several values of {', '.join(differing)}")
    return PerCode([network for network, _ in pairs]), {
        "architecture": [entry["architecture"] for entry in metadata]
    } | common
