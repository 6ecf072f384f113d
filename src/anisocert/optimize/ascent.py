"""Gradient ascent on theta: soft votes, their gap, an objective, a step.

Inputs go through in groups of one fixed, padded size, so that a group's other inputs cannot change an input's theta.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from anisocert.engine import Network
from anisocert.engine.numerics import out_of_memory
from anisocert.engine.settings import differentiating, repeatable
from anisocert.errors import ArgumentError
from anisocert.optimize._ceiling import Ceiling, Limits
from anisocert.optimize._steps import Adam, Plain
from anisocert.optimize.soft import Problem, SoftVotes

log = logging.getLogger(__name__)

Objective = Callable[[Tensor, Tensor], Tensor]
"""(gap `m`, theta `m x *shape`) -> what to maximise, `m`."""

HOST_GROUP = 2  # inputs on a CPU: more are hardly quicker there, and a single one would wait for its padding


@dataclass(frozen=True)
class Ascent:
    """How to climb: `iterations` steps of an optimiser, each on `samples` fresh noisy copies per input.

    adam: Adam, else plain gradient steps. logarithmic: steps are taken in log(theta). averaged: the mean of the second
    half of the steps (of log(theta), if steps are) is the result, not the last, which has its own copies' noise in it.
    centred: see SoftVotes.
    """

    iterations: int
    samples: int
    learning_rate: float
    adam: bool
    logarithmic: bool
    averaged: bool = False
    centred: bool = False

    def __post_init__(self) -> None:
        if self.iterations < 0 or self.samples < 1 or not self.learning_rate > 0:
            raise ArgumentError(
                "expected iterations >= 0, samples >= 1 and learning_rate > 0, got "
                f"{self.iterations}, {self.samples} and {self.learning_rate}"
            )

    @property
    def evaluations(self) -> int:
        """Network evaluations per input."""
        return self.iterations * self.samples

    def group(self, network: Network) -> int:
        """Inputs that climb together in a network that is fitted."""
        group = max(1, network.gradient_rows(self.samples) // self.samples)
        return min(group, HOST_GROUP) if network.device.type == "cpu" else group

    def climb(self, problem: Problem, start: Tensor, objective: Objective, *, lower: Tensor, limits: Limits) -> Tensor:
        """Theta after all steps, kept at least `lower`, or else within its limits, after each. start, lower: `b x ...`.

        Regions are kept within theirs by the gaps on the way, which are noisy: about, that is.
        """
        problem.require_gradients()
        return self._in_groups(
            problem,
            lambda places: partial(self._climb_group, start[places], objective, lower[places], limits.part(places)),
        )

    def rehearse(self, problem: Problem, steps: int) -> None:
        """Some steps of all inputs, for whoever measures what they cost; the theta that they end in is nobody's."""
        start = torch.ones_like(problem.query.x)
        limits = Limits.of(problem.query, float("inf"))
        replace(self, iterations=steps).climb(problem, start, lambda gap, _: gap, lower=start, limits=limits)

    def sensitivity(self, problem: Problem, theta: Tensor) -> Tensor:
        """See SoftVotes, over the copies of one step. theta: `b x *shape`."""
        return self._in_groups(
            problem, lambda places: partial(SoftVotes.sensitivity, theta=theta[places], samples=self.samples)
        )

    @differentiating()
    def _in_groups(self, problem: Problem, work: Callable[[Tensor], Callable[[SoftVotes], Tensor]]) -> Tensor:
        """What is found for each input. work: of places to what is done with their soft votes."""
        network = problem.query.network
        network.fit(problem.query.shape, 0)
        group = self.group(network)
        at_once = max(1, network.gradient_rows(self.samples) // group)
        return torch.cat(
            [
                self._within_memory(problem.part(places), at_once, work(places))[:real]
                for places, real in _groups(len(problem.query), group)
            ]
        )

    def _within_memory(self, problem: Problem, at_once: int, work: Callable[[SoftVotes], Tensor]) -> Tensor:
        """What is found for one group, with as many copies per input at once as there is memory for."""
        try:
            with repeatable():
                return work(SoftVotes(problem, at_once, centred=self.centred, one_shape=True))
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if not problem.query.network.give_up_gradient_graph():
                if at_once == 1:
                    raise
                at_once //= 2
                log.warning("out of memory with gradients; continuing with %d copies of an input at once", at_once)
        if problem.query.x.is_cuda:  # not before the error is gone, which knows what the steps had in memory
            torch.cuda.empty_cache()
        return self._within_memory(problem, at_once, work)

    def _climb_group(
        self, start: Tensor, objective: Objective, lower: Tensor, limits: Limits, votes: SoftVotes
    ) -> Tensor:
        ceiling = Ceiling(limits)
        value = (start.log() if self.logarithmic else start).clone().requires_grad_(True)
        step = (Adam if self.adam else Plain)(value.detach(), self.learning_rate)
        first, total = self.iterations // 2 if self.averaged else self.iterations - 1, torch.zeros_like(value)
        for i in range(self.iterations):
            theta = self._theta(value)
            gap = votes.problem.gap(votes.mean(theta, i * self.samples, self.samples))
            (slope,) = torch.autograd.grad(objective(gap, theta).sum(), [value])
            with torch.no_grad():
                step(slope)
                bounded = ceiling.over(self._theta(value), gap).maximum(lower)
                value.copy_(bounded.log() if self.logarithmic else bounded)
                if i >= first:
                    total += value
        result = total / (self.iterations - first) if self.iterations else value
        return self._theta(result).detach().clamp(max=limits.upper).maximum(lower)  # as its logarithm was rounded

    def _theta(self, value: Tensor) -> Tensor:
        return value.exp() if self.logarithmic else value


def _groups(count: int, size: int) -> Iterator[tuple[Tensor, int]]:
    """Positions in groups of exactly `size`, the last one padded with repetitions, and how many are real."""
    for first in range(0, count, size):
        real = min(size, count - first)
        yield (first + torch.arange(size, device="cpu") % real), real
