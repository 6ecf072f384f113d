"""What a configuration names, loaded: its examples, its network and its memory."""

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from anisocert import data, models
from anisocert.data import Dataset
from anisocert.data.arrays import CHANNELS_FIRST
from anisocert.errors import ArgumentError, ModelError
from anisocert.inputs import hash_values
from anisocert.memory import Memory
from anisocert.models import Codebook, Coded, PerCode
from anisocert.models.adapters import SeveralError
from anisocert.models.loading import expect_network_file, is_function
from anisocert.models.weights import read_torch
from anisocert.runs.configuration import Configuration
from anisocert.shell import shell_quote


def chosen(configuration: Configuration, examples: Dataset) -> Dataset:
    """The examples of a data set that a configuration names, in order of id."""
    c = configuration
    subset = examples.subset(c.skip, c.max, None if c.ids is None else data.parse_ids(c.ids, examples.named))
    return subset.at(np.argsort(subset.ids))


def examples_hash(examples: Dataset) -> str:
    """SHA-256 of ids, labels and inputs; for image files, of their bytes and how they are prepared.

    Every process of a run does this once, as it starts, with the files of all chosen examples: they are read a first
    time, not decoded. ImageNet's 50,000 (6.7 GB) take as long as the disk needs for them; where they are cached, 10 s
    on two cores.
    """
    if isinstance(examples.pixels, np.ndarray):
        return arrays_hash(examples.ids, examples.y, examples.pixels)
    prepared = np.array(json.dumps(examples.preparation))
    return arrays_hash(examples.ids, examples.y, prepared, examples.pixels.checksums())


def arrays_hash(*arrays: NDArray[Any]) -> str:
    """SHA-256 of arrays' values, types and shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        hash_values(digest, array)
    return digest.hexdigest()


def load_model(
    configuration: Configuration,
    source: str | Path | None = None,
    gradients: bool | None = None,
    classes: int | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
    """The network and what its file says about it.

    source: where the file is, if not where the configuration says. gradients: whether the network must give them;
    default: as the configuration needs it. classes: how many the data has, which tells scores from other things that a
    network returns where the configuration does not say.
    """
    c = configuration
    layout = None if c.layout == CHANNELS_FIRST else c.layout  # which is about the data
    load = partial(
        models.load, source or c.model, mean=c.mean, std=c.std, layout=layout,
        gradients=c.needs_gradients if gradients is None else gradients, denoise=c.denoise,
        shape=c.input_shape,
    )  # fmt: skip
    try:
        model, metadata = load(num_classes=c.num_classes)
    except SeveralError as error:
        if c.num_classes is not None:
            raise
        if classes is None:
            raise ModelError(f"{error}; or say how many classes there are, with --num-classes") from error
        model, metadata = load(num_classes=classes)
    if c.codebook is None:
        if isinstance(model, PerCode):
            raise ArgumentError(
                f"expected a method that asks the networks of a codebook, as cascade, for {c.model}, got {c.method}: "
                f"use --codebook {shell_quote(c.model)}, in certify with --method cascade"
            )
        return model, metadata
    codebook = Codebook.load(c.codebook)
    place = Path(source or c.model)  # a function may give a PerCode too, whose codes nobody knows
    if (
        isinstance(model, PerCode)
        and place.is_file()
        and not np.array_equal(Codebook.load(place).codes, codebook.codes)
    ):
        raise ArgumentError(
            f"expected the codes of {place}, each of which has a network there, got others in {c.codebook}: use "
            f"--codebook {shell_quote(place)}"
        )
    selector = None if c.selector is None else models.load(c.selector, num_classes=len(codebook))[0]
    return Coded(model, selector, codebook), metadata


def open_memory(c: Configuration) -> Memory:
    """The memory that a configuration names; without one, one that ends with the process."""
    if c.memory is None:
        return Memory(prefer=c.memory_prefer)
    lifetime = c.alpha if c.lifetime else None
    return Memory.open(c.memory, c.memory_policy, prefer=c.memory_prefer, lifetime=lifetime)


def trained_sigma(model: str, norm: str, denoise: str | None) -> float:
    """The noise level that a network was trained with, where none is named; an error if its file does not say."""
    if not is_function(model):
        expect_network_file(model)
    metadata = {} if denoise is not None else models.described(model)  # no file says anything about the two together
    sigma = metadata.get("sigma")
    if metadata.get("norm") != norm or isinstance(sigma, bool) or not isinstance(sigma, int | float):
        if not is_function(model) and Path(model).suffix not in (".safetensors", ".onnx"):
            read_torch(Path(model))  # what is no network needs no sigma
        reason = f", which was trained for norm {metadata['norm']}" if metadata.get("norm") not in (None, norm) else ""
        levels = None if denoise is None or is_function(denoise) else models.load_denoiser(denoise)[0].levels
        among = "" if levels is None else f", of {levels[0]:g} to {levels[1]:g} for this denoiser"
        raise ArgumentError(
            f"expected sigma, as the {norm} noise of {model} is unknown{reason}, got none: use --sigma{among}"
        )
    return float(sigma)
