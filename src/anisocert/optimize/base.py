"""What every way to choose theta must say."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Network, Query
from anisocert.engine.grid import warn_if_coarse
from anisocert.engine.probe import probe_inputs
from anisocert.engine.told import expect_one_level, is_told
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.choice import Choice, Floats
from anisocert.optimize.soft import Problem
from anisocert.smoothing import Smoothing


class Method(ABC):
    """Chooses the scale of the noise for each input, from noise that no later stage sees.

    searches: whether it searches from the noise's own theta, which must then be one number.
    """

    name: str
    searches: ClassVar[bool] = False

    def ascents(self, plan: Plan) -> tuple[Ascent, ...]:
        """The gradient ascents of the search, in order."""
        return ()

    def evaluations(self, plan: Plan) -> int:
        """Network evaluations with gradients per input."""
        return sum(ascent.evaluations for ascent in self.ascents(plan))

    def pilot_votes(self, plan: Plan, model: Classifier | None = None) -> int:
        """Pilot votes per input, of this model if they depend on it."""
        return 0

    def votes(self, plan: Plan, model: Classifier | None = None) -> int:
        """All votes per input, those of the search included, as a forecast."""
        return plan.n0 + plan.n + self.pilot_votes(plan, model)

    def group(self, network: Network, plan: Plan) -> int:
        """How many inputs can be searched together at the cost of one, in a network that is fitted."""
        ascents = self.ascents(plan)
        return ascents[-1].group(network) if ascents else 1

    def limit_for(self, shape: tuple[int, ...]) -> float:
        """The largest theta of a search for inputs of this shape, as a multiple of the noise's own; inf without one."""
        return math.inf

    def least(self, model: Classifier, smoothing: Smoothing) -> float:
        """The smallest noise that is asked for, as far as that is known before the search."""
        return float(np.min(smoothing.theta))

    def judged(self, plan: Plan) -> Plan:
        """The plan with the most of alpha that votes for a class are judged at."""
        return plan

    def warn(self, model: Classifier, smoothing: Smoothing, plan: Plan, num_classes: int, grid: float) -> None:
        """Warn, before any vote, if none of the plan's can certify, or if the grid rounds much of the noise away."""
        self.judged(plan).warn_if_hopeless(num_classes)
        warn_if_coarse(self.least(model, smoothing), grid)

    def check(self, model: Classifier, smoothing: Smoothing, plan: Plan, shape: tuple[int, ...] | None = None) -> None:
        """Raise an error unless this method can ask this model under this noise. shape: of inputs, where it is known.

        Nothing is drawn: call it before anything is begun, booked or promised.
        """
        if is_told(model):
            expect_one_level(smoothing.weights)
        if self.searches:
            scalar_theta(self, smoothing)
        if shape is not None:
            expect_theta_of(smoothing.theta, shape)

    def expect_gradients(self, network: Network, smoothing: Smoothing, plan: Plan, shape: tuple[int, ...]) -> None:
        """An error if the search needs gradients to inputs of this shape, and the network has none.

        No vote is drawn: like `check`, before anything is begun, booked or promised.
        """
        if self.ascents(plan):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AnisocertWarning)  # of the search, which looks at inputs of its own
                Problem(Query.of(network, smoothing, probe_inputs(shape)), "logits").require_gradients()

    def decide(self, query: Query, plan: Plan, alphas: Floats) -> Sequence[Choice]:
        """Decide which network is asked about which inputs, and under which theta: by default that of `choose`.

        alphas: `b`, of which part may be spent. Returns a choice for each network that is asked, at least one; an input
        that is in none of them abstains.
        """
        return [Choice.of(query, checked_theta(self.choose(query, plan), query.x))]

    @abstractmethod
    def choose(self, query: Query, plan: Plan) -> Tensor:
        """Theta of each input, float32: `b x *shape`, or `b x 1 x ...` where isotropic."""


def checked_theta(theta: Tensor, x: Tensor) -> Tensor:
    """What a method chose for x; an error unless the noise can be drawn with exactly these numbers."""
    shapes = (tuple(x.shape), (len(x), *(1 for _ in x.shape[1:])))
    if theta.dtype != torch.float32 or tuple(theta.shape) not in shapes:
        raise ArgumentError(f"expected a float32 theta of shape {shapes[0]}, got {theta.dtype} {tuple(theta.shape)}")
    if not bool((theta.isfinite() & (theta > 0)).all()):
        raise ArgumentError("expected the method to choose theta positive and finite, got other values")
    return theta.detach()


def scalar_theta(method: Method, smoothing: Smoothing) -> float:
    """The noise's own theta, from which a search starts; an error unless it is one number."""
    if len(smoothing.weights) > 1:
        raise ArgumentError(f"expected a noise of one component for {method.name}, got a mixture: use Fixed()")
    if smoothing.theta.ndim:
        raise ArgumentError(
            f"expected one number as the noise's parameter for {method.name}, got {smoothing.theta.shape}"
        )
    return float(smoothing.theta)


def expect_theta_of(theta: NDArray[np.float32], shape: tuple[int, ...]) -> None:
    """An error unless a theta is a scalar, or of the inputs' shape."""
    if theta.ndim and theta.shape != shape:
        raise ArgumentError(f"expected the noise's parameter as a scalar or of shape {shape}, got {theta.shape}")


def same_for_all(theta: NDArray[np.float32], x: Tensor) -> Tensor:
    """One theta, scalar or of an input's shape, for every input. x: `b x *shape`."""
    shape = tuple(x.shape[1:])
    expect_theta_of(theta, shape)
    common = torch.from_numpy(np.array(theta)).to(x.device).reshape(shape if theta.ndim else (1,) * len(shape))
    return common.expand(len(x), *common.shape)
