"""The commands that a diagnosis recommends: what certifies a network, and what lets it stand more noise."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anisocert.data import imagenet, splits
from anisocert.data.arrays import CHANNELS_FIRST
from anisocert.engine.grid import GRID, fitting
from anisocert.engine.told import is_told
from anisocert.models import Normalized
from anisocert.models.denoiser import takes
from anisocert.options import READING, flags
from anisocert.shell import shell_join
from anisocert.work import Job

TEST_EVERY = 10  # images, one of them to certify and the others to train on


@dataclass(frozen=True)
class Remedy:
    """What lets a network stand more noise, or has to come before that. commands: to be typed one after the other."""

    what: str
    commands: tuple[str, ...]


def certifying(
    job: Job, sigma: float, norm: str, method: str, out: str = "RUN", memory: str = "memory.sqlite", **changes: Any
) -> str:
    """The command that certifies in this way; noise chosen per input goes with a memory, little with a finer grid.

    changes: of the configuration, as in denoise=FILE.
    """
    c = job.configuration
    finer, numerics = fitting(sigma, GRID), c.numerics
    if numerics.grid is None and finer != GRID:  # one that was asked for stays
        numerics = replace(numerics, grid=finer)
    classes = None if job.metadata.get("num_classes") else c.num_classes
    settings: dict[str, Any] = {
        "sigma": sigma, "norm": norm, "method": method, "num_classes": classes, "inputs": None, "device": None,
        "memory": memory, "codebook": None, "selector": None, "numerics": numerics,
    }  # fmt: skip
    return replace(c, **(settings | changes)).command(Path(out))


def remedies(job: Job, sigma: float, norm: str, method: str) -> Iterator[Remedy]:
    """What would let a job's network, which gives gradients, stand this noise; nothing where none can be trained.

    method: to certify by afterwards.
    """
    c, shape = job.configuration, job.examples.shape
    if c.denoise is not None or c.codebook is not None or is_told(job.model) or c.outputs == "probabilities":
        return
    if c.layout == CHANNELS_FIRST:  # of the data, which `anisocert train` does not ask about
        return
    sigma = float(f"{sigma:.3g}")
    trainings = []
    if takes(shape[0], shape):
        file = "DENOISER/last.safetensors"
        then = certifying(job, sigma, norm, method, "RUN-DENOISER", "memory-DENOISER.sqlite", denoise=file)
        what = "A denoiser in front of it, which itself stays as it is"
        trainings.append(Remedy(what, (_training(job, "denoiser", sigma, norm), then)))
    if isinstance(job.model, Normalized) and job.model.architecture is not None:  # else it could not be kept in a file
        changes = {"model": "DISTILLATION/last.safetensors"} | dict.fromkeys(("num_classes", "model_id", *READING))
        then = certifying(job, sigma, norm, method, "RUN-DISTILLATION", "memory-DISTILLATION.sqlite", **changes)
        what = "Or fine-tuning: it learns to say under noise what it says without, and needs no labels"
        trainings.append(Remedy(what, (_training(job, "distillation", sigma, norm), then)))
    if trainings and "train" not in (splits(c.data) or ("train",)):
        if Path(c.data).is_file():  # of test examples
            return
        yield _more_data(job)
    yield from trainings


def _training(job: Job, recipe: str, sigma: float, norm: str) -> str:
    c = job.configuration
    typed = {"recipe": recipe, "classifier": c.model, "data": c.data, "norm": norm, "sigma": f"{sigma:g}"}
    typed |= {name: value for name in READING if (value := getattr(c, name)) is not None}
    return shell_join(["anisocert", "train", *flags(typed | {"out": recipe.upper()})])


def _more_data(job: Job) -> Remedy:
    """A train split, which only prepared data may lack, from the folder that was prepared, in the same way."""
    data, preparation = job.configuration.data, job.examples.preparation
    usual = {"resize": imagenet.RESIZE, "crop": imagenet.CROP}
    typed: dict[str, Any] = {} if data == "imagenet" else {"out": data}
    typed |= {name: preparation[name] for name, value in usual.items() if preparation[name] not in (None, value)}
    options = flags(typed | {"test-every": TEST_EVERY, "force": True})
    return Remedy(
        f"Training needs a train split, which {data} does not have. This prepares the images of FOLDER again, one in "
        f"{TEST_EVERY} of them to certify and the others to train on",
        (shell_join(["anisocert", "data", "prepare", "imagenet", "FOLDER", *options]),),
    )
