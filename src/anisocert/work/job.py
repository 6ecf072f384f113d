"""What a run works on: its network, its examples, and the configuration once both are known."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from anisocert.certification import warn_if_out_of_reach
from anisocert.data import Dataset, load
from anisocert.data.dataset import as_float
from anisocert.engine import Numerics, Stage, Stream
from anisocert.engine.grid import REACH, check_range
from anisocert.engine.probe import as_json
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.inputs import expect_labels
from anisocert.models.normalize import check_units, warn_of_scales, warn_of_units
from anisocert.optimize import Average
from anisocert.optimize.domain import check_domain
from anisocert.runs import Configuration, read_run
from anisocert.runs.loading import arrays_hash, chosen, examples_hash, load_model
from anisocert.work.doubts import warn_of_doubts

FEW = 4  # inputs: that so few are of one class is no surprise


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some inputs, in order of id. x: `b x *shape`; y: their labels. alphas: `b`, once the run has begun."""

    ids: list[int]
    x: NDArray[np.float32] = field(repr=False)
    y: list[int]
    alphas: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """A configuration with what it names, loaded. examples: in order of id. theta: for method average."""

    configuration: Configuration
    examples: Dataset
    model: nn.Module = field(repr=False)
    metadata: dict[str, Any] = field(repr=False)
    theta: NDArray[np.float32] | None = field(default=None, repr=False)
    _hashed: dict[Numerics, Configuration] = field(default_factory=dict, init=False, repr=False)

    @property
    def ids(self) -> list[int]:
        """Ids of all inputs, ascending."""
        return [int(number) for number in self.examples.ids]

    def chunk(self, ids: Sequence[int], begun: Configuration | None = None) -> Chunk:
        """These inputs, read now; ids ascending. begun: the run's configuration, if they are to be certified."""
        at = np.searchsorted(self.examples.ids, ids)
        x = as_float(np.asarray(self.examples.pixels[at]))
        if not np.isfinite(x).all():
            number = ids[int(np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(1))[0])]
            raise ArgumentError(f"expected finite inputs, got NaN or infinity in example {number}")
        if self.configuration.domain is not None:
            check_domain(self.configuration.domain, x)
        return Chunk(list(ids), x, self.examples.y[at].tolist(), None if begun is None else begun.alphas()[at])

    def warn(self) -> None:
        """Warn about what is allowed but probably not intended."""
        c, plan, metadata = self.configuration, self.configuration.plan(), self.metadata
        method, smoothing = c.chooser(self.theta), c.smoothing()
        assert c.num_classes is not None
        method.warn(self.model, smoothing, plan, c.num_classes, c.numerics.step)
        if metadata.get("mean") is None:  # a network that does not say which units it takes
            warn_of_units(c.sigma, [self.examples.spread()], images=len(self.examples.shape) > 1)
        if len(self.examples.shape) == 1:
            warn_of_scales(self.examples.sample(256))
        warn_of_doubts(c, self.model, metadata)
        if c.method == "fixed":
            warn_if_out_of_reach(smoothing, plan, c.num_classes, float(smoothing.theta))

    def check(self) -> None:
        """An error if network, noise and method do not go together: before a folder is claimed or alpha reserved."""
        c = self.configuration
        c.chooser(self.theta).check(self.model, c.smoothing(), c.plan(), self.examples.shape)

    def hashed(self, numerics: Numerics) -> Configuration:
        """The configuration with the network's hash in these numerics, whose precision is known.

        If the hash is a name that the user gave, with the network's behaviour too: any network can have the name.
        """
        if numerics not in self._hashed:
            c = self.configuration
            network = c.network(self.model, "cpu", numerics)
            probe = None if c.model_id is None else as_json(network.probe(self.examples.shape))
            self._hashed[numerics] = replace(c, model_hash=network.hash, probe=probe)
        return self._hashed[numerics]


def load_job(asked: Configuration) -> Job:
    """Load what a configuration names, and complete it from that."""
    dataset = load(asked.data, asked.split, asked.layout)
    examples = chosen(asked, dataset)
    Stream(asked.seed, Stage.ESTIMATE, int(examples.ids.max()))  # an error now if the seed names no stream
    asked = replace(asked, input_shape=list(examples.shape))
    model, metadata = load_model(asked, classes=dataset.num_classes if dataset.labelled else None)
    num_classes = asked.num_classes or metadata.get("num_classes") or (examples.num_classes if examples.labelled else 0)
    if num_classes == 0:
        raise ArgumentError(f"expected num_classes (--num-classes), as {asked.data} has no labels to tell it, got none")
    _warn_if_one_class(examples, dataset)
    expect_labels(dataset.y, num_classes, asked.data)  # of all, as a few may not show that they are counted from 1
    # Before the run begins, which fixes its domain and grid.
    if asked.domain is not None:
        check_domain(asked.domain, _extremes(examples))
    if asked.numerics.step:
        noise = asked.smoothing()
        reached = float(np.abs(_extremes(examples)).max()) + REACH[noise.base] * float(np.max(noise.theta))
        check_range(reached, asked.numerics.step)
    check_units(examples.sample(), metadata.get("mean"), metadata.get("std"))
    theta = average_theta(asked)
    configuration = replace(
        asked, num_classes=num_classes, inputs=len(examples), data_hash=examples_hash(examples),
        theta_hash=None if theta is None else arrays_hash(theta), trained_on=_trained_on(metadata, dataset),
    )  # fmt: skip
    return Job(configuration, examples, model, metadata, theta)


def average_theta(c: Configuration) -> NDArray[np.float32] | None:
    """For method average the mean theta of the other run, else None; an error if it is not of an input's shape."""
    if c.average_of is None:
        return None
    theta, shape = Average.of(read_run(Path(c.average_of)).thetas.values()).theta, tuple(c.input_shape or ())
    if theta.ndim and theta.shape != shape:
        raise ArgumentError(f"expected thetas of shape {shape} in {c.average_of}, got {theta.shape}")
    return theta


def _warn_if_one_class(examples: Dataset, dataset: Dataset) -> None:
    """Warn of inputs of one class, as data in order of its classes begins with."""
    if FEW < len(examples) < len(dataset) and len(np.unique(examples.y)) == 1 < len(np.unique(dataset.y)):
        warnings.warn(
            f"all {len(examples)} inputs are of class {examples.y[0]}, of {dataset.num_classes} in {dataset.name}: use "
            "--skip N, every N-th, to spread them",
            AnisocertWarning, stacklevel=3,
        )  # fmt: skip


def _trained_on(metadata: dict[str, Any], dataset: Dataset) -> bool:
    """Whether a network's file says that it was trained on this data; of image files nothing is said."""
    same = metadata.get("examples") == len(dataset) and isinstance(dataset.pixels, np.ndarray)
    return same and metadata.get("data_sha256") == dataset.fingerprint()


def _extremes(examples: Dataset) -> NDArray[np.float32]:
    """The smallest and the largest value; of image files, a sample: the others are checked when they are read."""
    if isinstance(pixels := examples.pixels, np.ndarray):
        ends: NDArray[np.uint8] | NDArray[np.float32] = np.array([np.nanmin(pixels), np.nanmax(pixels)])
        return as_float(ends)
    return examples.sample()


def model_files(configuration: Configuration) -> dict[str, bytes] | None:
    """The network's file, and its data files, by their paths from its folder; None for a function.

    Those of its other parts are in folders named for their options.
    """
    path = Path(configuration.model)
    if not path.is_file():
        return None
    names = [path.name]
    if path.suffix == ".onnx":
        from anisocert.models.onnx_file import read_onnx

        names += read_onnx(path).locations
    parts = {name: Path(part) for name, part in configuration.parts.items() if part and Path(part).is_file()}
    contents = {f"{name}/{file.name}": file.read_bytes() for name, file in parts.items()}
    return {name: (path.parent / name).read_bytes() for name in names} | contents
