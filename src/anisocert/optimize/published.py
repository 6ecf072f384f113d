"""The published searches for theta, step by step as their listings have them, to compare with.

They have no bound on theta, no pilot votes and no guard: for small sigma the isotropic one diverges, and both may end
with a smaller ball than fixed noise has. `Isotropic` and `Anisotropic` are what to use.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Query
from anisocert.errors import ArgumentError
from anisocert.optimize._ceiling import Limits
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.base import Method, scalar_theta
from anisocert.optimize.soft import Outputs, Problem

TINY = 1e-4  # plain gradient steps can overshoot to a theta below zero


@dataclass(frozen=True)
class PublishedIsotropic(Method):
    """Data-dependent smoothing (Alfarra et al. 2022): plain gradient steps on theta * gap, from the noise's own theta.

    iterations, samples: steps, and noisy copies per step. outputs: what the network returns.
    """

    iterations: int = 900
    samples: int = 100
    learning_rate: float = 0.04
    outputs: Outputs = "logits"

    name = "isotropic"
    searches = True

    def ascents(self, plan: Plan) -> tuple[Ascent, ...]:
        """See Method."""
        return (Ascent(self.iterations, self.samples, self.learning_rate, adam=False, logarithmic=False),)

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        (ascent,), problem, limits = self.ascents(plan), Problem(query, self.outputs), Limits.of(query, float("inf"))
        start = query.x.new_full((len(query), *(1 for _ in query.shape)), scalar_theta(self, query.smoothing))
        lower = torch.full_like(start, TINY)
        return ascent.climb(problem, start, lambda gap, theta: gap * theta.flatten(1)[:, 0], lower=lower, limits=limits)


@dataclass(frozen=True)
class PublishedAnisotropic(Method):
    """ANCER (Eiras et al. 2022): Adam on theta from an isotropic start, which it stays above.

    Maximises gap * (geometric mean of theta + kappa * min theta). isotropic: what gives the start.
    """

    kappa: float = 2.0
    ascent: Ascent = field(default=Ascent(100, 100, 0.04, adam=True, logarithmic=False))
    isotropic: Method = field(default=PublishedIsotropic())
    outputs: Outputs = "logits"

    name = "anisotropic"
    searches = True

    def __post_init__(self) -> None:
        if not self.kappa >= 0:
            raise ArgumentError(f"expected kappa >= 0, got {self.kappa}")

    def ascents(self, plan: Plan) -> tuple[Ascent, ...]:
        """See Method."""
        return (*self.isotropic.ascents(plan), self.ascent)

    def pilot_votes(self, plan: Plan, model: Classifier | None = None) -> int:
        """See Method."""
        return self.isotropic.pilot_votes(plan)

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        start = self.isotropic.choose(query, plan).expand(query.x.shape).contiguous()
        return self.grow(Problem(query, self.outputs), start)

    def grow(self, problem: Problem, start: Tensor) -> Tensor:
        """Theta after the ascent from a start. start: `b x *shape`."""

        def height(gap: Tensor, theta: Tensor) -> Tensor:
            flat = theta.flatten(1)
            # A detail of the listing: torch.min gives a tie's gradient to one pixel, amin would share it among all.
            return gap * flat.log().mean(1).exp() + self.kappa * gap * flat.min(1).values

        return self.ascent.climb(problem, start, height, lower=start, limits=Limits.of(problem.query, float("inf")))
