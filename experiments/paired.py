"""Two runs on the same inputs: which one is ahead, and whether that could be the choice of inputs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anisocert.evaluate import bootstrap
from anisocert.evaluate.results import Results, Size, aligned


@dataclass(frozen=True)
class Paired:
    """Means of two runs, and the 95 % interval of the mean of their differences, input by input."""

    one: float
    other: float
    low: float
    high: float
    inputs: int

    @property
    def ratio(self) -> float:
        """How many times the other's mean; NaN where that is 0."""
        return self.one / self.other if self.other > 0 else float("nan")

    @property
    def difference(self) -> float:
        """By how much the mean is above the other's."""
        return self.one - self.other

    @property
    def sure(self) -> bool:
        """Whether the difference is more than the choice of inputs explains."""
        return self.low > 0 or self.high < 0


def average_gain(one: Results, other: Results, size: Size = "radius") -> Paired:
    """ACR, or ACR~, of one run and another."""
    a, b = aligned([one, other])
    return _paired(a.certified(size), b.certified(size))


def accuracy_gain(one: Results, other: Results, radius: float = 0.0) -> Paired:
    """Certified accuracy at a radius of one run and another."""
    a, b = ((part.correct & (part.certified() >= radius)).astype(np.float64) for part in aligned([one, other]))
    return _paired(a, b)


def _paired(one: NDArray[np.float64], other: NDArray[np.float64]) -> Paired:
    return Paired(float(one.mean()), float(other.mean()), *bootstrap(one - other), len(one))
