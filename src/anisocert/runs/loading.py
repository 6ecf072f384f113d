"""What a configuration names, loaded: its examples and its network."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from anisocert import data, models
from anisocert.data import Dataset
from anisocert.runs.configuration import Configuration, digest


def load_examples(configuration: Configuration) -> Dataset:
    """The examples that a configuration names, in order of id."""
    c = configuration
    found = data.load(c.data, c.split).subset(c.skip, c.max, None if c.ids is None else data.parse_ids(c.ids))
    order = np.argsort(found.ids)
    return replace(found, pixels=found.pixels[order], y=found.y[order], ids=found.ids[order])


def examples_hash(examples: Dataset) -> str:
    """SHA-256 of ids, labels and inputs; of image files the bytes count, and how they are prepared.

    Every process of a run does this once, as it starts, with the files of all chosen examples: they are read a first
    time, not decoded. ImageNet's 50,000 (6.7 GB) take as long as the disk needs for them; where they are cached, 10 s
    on two cores.
    """
    if isinstance(examples.pixels, np.ndarray):
        return digest(examples.ids, examples.y, examples.pixels)
    prepared = np.array(json.dumps(examples.preparation))
    return digest(examples.ids, examples.y, prepared, examples.pixels.checksums())


def load_model(configuration: Configuration, source: Path | None = None) -> tuple[nn.Module, dict[str, Any]]:
    """The network and what its file says about it. source: where the file is, if not where the configuration says."""
    c = configuration
    return models.load(
        source or c.model, num_classes=c.num_classes, mean=c.mean, std=c.std, layout=c.layout,
        gradients=c.needs_gradients, denoise=c.denoise,
    )  # fmt: skip
