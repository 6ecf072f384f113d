"""The mean of optimised thetas as one theta for all inputs: the paper's control that does not depend on the data."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Query
from anisocert.errors import ArgumentError
from anisocert.inputs import told
from anisocert.optimize.base import Method, expect_theta_of, same_for_all
from anisocert.smoothing import Smoothing
from anisocert.smoothing.base import positive


@dataclass(frozen=True, init=False, eq=False)
class Average(Method):
    """A given theta for every input; `Average.of(thetas)` makes it from the optimised ones of a set.

    One smoothed classifier answers all inputs, so that a certificate holds whoever asks, and needs no memory.

    Args:
        theta: scale of the noise, one number or of the input's shape. It must come from other inputs than those that
            are certified with it.
    """

    theta: NDArray[np.float32]

    name = "average"

    def __init__(self, theta: ArrayLike) -> None:
        object.__setattr__(self, "theta", positive("theta", theta))

    @classmethod
    def of(cls, thetas: Collection[ArrayLike]) -> "Average":
        """The elementwise mean of thetas of one shape, as in `Average.of([c.theta for c in certificates])`."""
        if not hasattr(thetas, "__len__"):
            raise ArgumentError(f"expected thetas, a list of arrays, got {told(thetas)}")
        if len(thetas) == 0:
            raise ArgumentError("expected at least one theta to average, got none")
        if hasattr(first := next(iter(thetas)), "theta"):
            raise ArgumentError(f"expected thetas, as in [c.theta for c in certificates], got {told(first)} among them")
        iterator = iter(thetas)  # one at a time: those of a run may be too many for the memory
        total = np.array(next(iterator), np.float64)
        for theta in iterator:
            if np.shape(theta) != total.shape:
                raise ArgumentError(f"expected thetas of one shape, got {total.shape} and {np.shape(theta)}")
            total += np.asarray(theta, np.float64)
        return cls(total / len(thetas))

    def check(self, model: Classifier, smoothing: Smoothing, plan: Plan, shape: tuple[int, ...] | None = None) -> None:
        """See Method."""
        super().check(model, smoothing, plan, shape)
        smoothing.at(self.theta)  # an error for a mixture, whose noise has its own
        if shape is not None:
            expect_theta_of(self.theta, shape)

    def least(self, model: Classifier, smoothing: Smoothing) -> float:
        """See Method."""
        return float(self.theta.min())

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        return same_for_all(self.theta, query.x)
