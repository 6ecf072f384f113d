"""Doubts about a network and the noise it is asked under: allowed, but its file says that it was made for another."""

import json
import warnings
from typing import Any

from torch import nn

from anisocert.errors import AnisocertWarning
from anisocert.models import Coded, Denoised, Denoiser
from anisocert.models.denoiser import is_among
from anisocert.models.weights import weights_hash
from anisocert.optimize import CODED
from anisocert.runs import Configuration
from anisocert.smoothing import GaussianMixture, usual

Metadata = dict[str, Any]


def warn_of_doubts(c: Configuration, model: nn.Module, metadata: Metadata) -> None:
    """Warn where a network was trained for another norm, noise or denoiser. metadata: of its file."""
    doubts = []
    if metadata.get("norm") not in (None, c.norm):
        doubts.append(f"the network was trained with noise for norm {metadata['norm']}, got norm {c.norm}")
    sigma = metadata.get("sigma")
    if isinstance(sigma, int | float) and not _any_noise(c, metadata) and sigma != c.sigma:
        doubts.append(f"the network was trained with noise of sigma {sigma:g}, got {c.sigma:g}")
    doubts += beyond_denoiser(model, metadata, c.norm, c.sigma) + _without_its_denoiser(c, model, metadata)
    for doubt in doubts:
        warnings.warn(doubt, AnisocertWarning, stacklevel=3)


def beyond_denoiser(model: nn.Module, metadata: Metadata, norm: str, sigma: float) -> list[str]:
    """In which way the noise, or a code's, is not what the denoiser was trained for, if there is one."""
    if (denoiser := metadata.get("denoiser")) is None:
        return []
    noise, (low, high) = usual(norm).name, denoiser["levels"]
    if noise != denoiser["noise"]:
        return [f"the denoiser was trained for {denoiser['noise']} noise, got {noise}"]
    levels = model.codes.flatten().tolist() if isinstance(model, Coded) else [sigma]
    remedy = "train one for it (train --recipe denoiser --levels LOW,HIGH), or stay between these"
    return [
        f"the denoiser was trained for noise of {low:g} to {high:g}, got {level:g}: {remedy}"
        for level in (min(levels), max(levels))
        if not is_among(level, (low, high))
    ][:1]


def _without_its_denoiser(c: Configuration, model: nn.Module, metadata: Metadata) -> list[str]:
    """Whether a network that was fine-tuned behind a denoiser has none, or another."""
    recipe = metadata.get("recipe")
    own = recipe.get("denoiser") if isinstance(recipe, dict) else None
    if not isinstance(own, dict):
        return []
    if c.denoise is None:
        return ["the network was fine-tuned behind a denoiser, got none: use --denoise FILE"]
    denoiser = model.denoiser if isinstance(model, Denoised) else None
    if not isinstance(denoiser, nn.Module):
        return []
    actual = (denoiser.blueprint() if isinstance(denoiser, Denoiser) else {}) | {"sha256": weights_hash(denoiser)}
    differs = json.dumps(own, sort_keys=True) != json.dumps(actual, sort_keys=True)
    return ["the network was fine-tuned behind another denoiser than the one of --denoise"] if differs else []


def _any_noise(c: Configuration, metadata: Metadata) -> bool:
    """Whether no single level was trained or is certified with: codes are several."""
    return c.method in CODED or metadata.get("noise") in (GaussianMixture.name, GaussianMixture.former)
