"""What a training is prepared from."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from anisocert.data import Dataset
from anisocert.models import Codebook
from anisocert.smoothing import Smoothing


@dataclass(frozen=True, eq=False)
class Task:
    """The examples, the noise, and what was asked for by name, of which each recipe takes what it needs.

    Args:
        data: the examples to learn from.
        smoothing: the noise to train with.
        architecture: of a fresh network; "" for a recipe that trains none.
        classifier: file, or package.module:function, of the network that a recipe begins with.
        reading: layout, mean and std of that network, as `models.load` takes them, where its file does not say them.
        denoise: file of the denoiser in front of that network.
        codebook: the codes that a selector chooses among.
        seed: of weights and votes.
        device: where votes are counted.
        tell: called with a line about what was found.
        busy: given what takes long, a context that says so meanwhile.
    """

    data: Dataset
    smoothing: Smoothing
    architecture: str = ""
    classifier: Path | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    denoise: Path | None = None
    codebook: Codebook | None = None
    seed: int = 0
    device: torch.device | str = "cpu"
    tell: Callable[[str], None] = lambda line: None
    busy: Callable[[str], AbstractContextManager[object]] = nullcontext
