"""Everything that a run, its data and its memory know about one input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.data.dataset import UNLABELLED, in_words
from anisocert.errors import AnisocertError, ArgumentError
from anisocert.evaluate import Comparison, compare
from anisocert.geometry import Region, inscribed_radius
from anisocert.memory import KEPT, SHRUNK
from anisocert.optimize import FOR_EVERYONE
from anisocert.report._inputs import Inputs, inputs_of
from anisocert.report._pictures import is_image
from anisocert.rounding import TOLERANCE, down

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

NORMS = {"l2": 2.0, "l1": 1.0, "l_inf": math.inf}
PIXELS = 255  # steps from black to white in an image file


@dataclass(frozen=True)
class Implied:
    """A ball inside the region. pixels: its radius where black to white is 255; None where inputs are not images."""

    norm: str
    radius: float
    pixels: float | None


def implied_balls(region: Region, unit_range: bool, known: bool = True) -> tuple[Implied, ...]:
    """The balls inside a region. unit_range: values are in [0, 1]. known: whether its dimension is the input's."""
    in_pixels = is_image(region.shape) and unit_range
    radii = {name: inscribed_radius(region, n) for name, n in NORMS.items() if known or n <= region.norm}
    return tuple(Implied(name, r, float(down(PIXELS * r)) if in_pixels else None) for name, r in radii.items())


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about one input of a run.

    row: of the run's table. region: certified before any memory. prediction, binding: what is answered and promised in
    the end, after the memory where there was one; whole: whether binding is all of it, or only a ball inside of what
    the memory promised. promise: the entry of the memory that the answer comes from, where that is known. counts: votes
    of each class, where they were drawn again.
    """

    run: StoredRun
    row: Mapping[str, Any] = field(repr=False)
    comparison: Comparison = field(repr=False)
    inputs: Inputs = field(repr=False)
    theta: NDArray[np.float32] = field(repr=False)
    region: Region | None
    prediction: int
    binding: Region | None
    whole: bool
    promise: Certificate | None = None
    counts: NDArray[np.int64] | None = None

    @property
    def id(self) -> int:
        """The input's id."""
        return int(self.row["idx"])

    @property
    def note(self) -> str:
        """What the memory did; empty without one."""
        return str(self.row.get("memory_note") or "")

    @property
    def for_everyone(self) -> bool:
        """Whether one classifier answers all inputs, so that certificates need no memory."""
        return self.row["method"] in FOR_EVERYONE

    def implied(self, region: Region) -> tuple[Implied, ...]:
        """The l2, l1 and l_inf balls inside a region, rounded down; those that its dimension decides only if known."""
        known = self.theta.ndim > 0 or self.inputs.shape is not None
        return implied_balls(region, self.inputs.unit_range, known)

    @property
    def label(self) -> str:
        """The input's true class in words."""
        label = int(self.row["label"])
        return "it has no label" if label == UNLABELLED else f"its label is {self.name(label)}"

    def name(self, label: int) -> str:
        """A class in words."""
        return "no answer" if label == ABSTAIN else in_words(label, self.inputs.class_names)


def evidence_of(run: StoredRun, number: int, counts: NDArray[np.int64] | None = None) -> Evidence:
    """The evidence about the input with this id. counts: its votes by class, if they were drawn again."""
    row, theta = run.row(number), run.thetas.get(number)
    if theta is None or not run.has_votes:
        raise ArgumentError(
            f"expected a run with votes and theta to show, got {run.folder}, which lacks them: `anisocert report` "
            "draws what it has"
        )
    comparison = compare([run])[0]
    inputs = inputs_of(comparison, [number])
    x = inputs.x.get(number)
    center = np.zeros(theta.shape or inputs.shape or (1,)) if x is None else x
    region = run.region(number, center)
    prediction, binding, whole, promise = row["prediction"], region, True, None
    if run.has_memory:
        prediction, binding = row["memory_prediction"], run.region_after_memory(number, center)
        if binding is not None and row["memory_note"] != KEPT:
            entry = None if x is None else _in_memory(run, row, x)
            # A memory that was emptied since may say less than what this run was told, one that has grown more.
            whole = entry is not None and entry.radius >= row["memory_radius"] * (1 - TOLERANCE)
            if entry is not None and whole:
                binding, promise = entry.region, entry
    return Evidence(run, row, comparison, inputs, theta, region, prediction, binding, whole, promise, counts)


def _in_memory(run: StoredRun, row: Mapping[str, Any], x: NDArray[np.float64]) -> Certificate | None:
    """What the memory holds for an input that was shrunk or inherited."""
    try:
        from anisocert.verify.backing import memory_of  # here, because reading runs needs more than importing this room

        with memory_of(run) as memory:
            if row["memory_note"] == SHRUNK:
                entry = memory.find(row["idx"])
                if entry is None or entry.region is None or not np.array_equal(entry.region.center, x):
                    return None
            else:
                entry = memory.lookup(x)
    except AnisocertError:
        return None
    return entry if entry is not None and entry.prediction == row["memory_prediction"] else None
