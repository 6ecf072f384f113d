"""The network that a recipe begins with: loaded, tried, and named by what its answers depend on."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anisocert.data import Dataset
from anisocert.engine import Network, Numerics
from anisocert.engine.first_call import taking
from anisocert.engine.given import home, own_copy
from anisocert.engine.returned import are_probabilities
from anisocert.engine.told import is_told
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Denoised, PerCode, load
from anisocert.models.adapters import SeveralError
from anisocert.models.normalize import check_units
from anisocert.models.weights import weights_hash


def classifier_of(
    source: str | Path, data: Dataset, denoise: str | None = None, reading: Mapping[str, Any] | None = None
) -> nn.Module:
    """The network of a file, or of a function, that takes the data's inputs, gives gradients and is not told theta.

    denoise: a denoiser to put in front of it, which may be told. reading: layout, mean and std, as `models.load` takes
    them.
    """
    loaded = partial(load, source, gradients=True, shape=data.shape, denoise=denoise, **(reading or {}))
    try:
        model, metadata = loaded()
    except SeveralError:
        if not data.labelled:
            raise
        model, metadata = loaded(num_classes=data.num_classes)
    if isinstance(model, PerCode):
        raise ArgumentError(f"expected one network in {source}, got those of a codebook: name the file of one of them")
    if not isinstance(model, Denoised) and is_told(model):
        raise ArgumentError(f"expected a network that is not told theta in {source}, got one that is")
    check_units(data.sample(), metadata.get("mean"), metadata.get("std"))
    _expect_logits(model.network if isinstance(model, Denoised) else model, source, data)
    return model


def network_hash(network: nn.Module | None) -> str:
    """SHA-256 of what a network's answers depend on, so that no training is resumed beside another one.

    Of one that cannot be read whole, as a session of another runtime, of its weights alone.
    """
    if network is None:
        return ""
    try:
        clone = own_copy(network)  # in evaluation mode
        return Network(clone, 2, "cpu", Numerics(precision="float32")).hash  # whatever the number of classes
    except ModelError:
        return weights_hash(network)


def _expect_logits(network: nn.Module, source: str | Path, data: Dataset) -> None:
    """An error if it gives probabilities: their softmax would be learned from, which is nearly the same for all."""
    x = torch.from_numpy(data.subset(most=8).x).to(home(network))
    with torch.no_grad(), taking(data.shape, network):
        scores = network.eval()(x)
    if are_probabilities(scores):
        raise ArgumentError(
            f"expected scores before the softmax, of {source}, got probabilities: name a package.module:function whose "
            "network returns their logarithm, or leaves the softmax out"
        )
