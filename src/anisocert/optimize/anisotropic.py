"""A theta of the input's own shape: anisotropic certification by volume maximisation (ANCER, Eiras et al. 2022)."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Query
from anisocert.errors import ArgumentError
from anisocert.optimize._pilot import Pilot, pilot_votes, reach, sizes, take
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.base import Method, scalar_theta
from anisocert.optimize.isotropic import Isotropic
from anisocert.optimize.soft import Outputs, Problem

BLENDS = (1 / 3, 2 / 3, 1.0)  # how much of the optimised shape: powers of its ratio to isotropic theta
SCALES = 2.0 ** (np.arange(-4, 3) / 6)  # of each blend, for the pilot votes to choose from
TIE = 0.99  # of a radius: less is a loss
OURS = Ascent(iterations=80, samples=50, learning_rate=0.08, adam=True, logarithmic=True, averaged=True)


@dataclass(frozen=True)
class Anisotropic(Method):
    """Grows theta from the isotropic one, then lets fixed, isotropic and anisotropic candidates compete.

    The ascent maximises gap * (geometric mean of theta + kappa * min theta), keeping theta at least isotropic. Of the
    candidates whose estimated radius is not below those of fixed and isotropic theta, the one of largest estimated
    proxy radius wins. isotropic: the starting point, whose limits hold here too. pilots: votes per candidate, as
    shares of the plan's n, in the first round, over BLENDS and SCALES, and in the second: fixed, isotropic, the
    `finalists` of largest proxy radius and the one of largest radius.
    """

    kappa: float = 2.0
    ascent: Ascent = OURS
    isotropic: Isotropic = field(default=Isotropic())
    pilots: tuple[float, float] = (0.01, 0.1)
    finalists: int = 2
    outputs: Outputs = "logits"

    name = "anisotropic"

    def __post_init__(self) -> None:
        if not self.kappa >= 0:
            raise ArgumentError(f"expected kappa >= 0, got {self.kappa}")
        if not min(self.pilots) > 0 or self.finalists < 1:
            raise ArgumentError(f"expected pilots > 0 and finalists >= 1, got {self.pilots} and {self.finalists}")

    @property
    def evaluations(self) -> int:
        """Network evaluations per input, pilot votes not counted."""
        return self.ascent.evaluations

    def pilot_votes(self, plan: Plan) -> int:
        """See Method."""
        shapes = len(BLENDS) * len(SCALES)
        candidates = (1 + shapes, 3 + min(self.finalists, shapes))
        rounds = zip(candidates, self.pilots, strict=True)
        return self.isotropic.pilot_votes(plan) + sum(count * pilot_votes(plan, share) for count, share in rounds)

    def group(self, rows: int) -> int:
        """See Method."""
        return self.ascent.group(rows)

    def limit_for(self, shape: tuple[int, ...]) -> float:
        """See Method."""
        return self.isotropic.limit_for(shape)

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        sigma = scalar_theta(self, query.smoothing)
        problem, pilot = Problem(query, self.outputs), Pilot(query, plan)
        isotropic, top = self.isotropic.search(pilot, sigma)
        upper = sigma * self.limit_for(query.shape)
        grown = self._grow(problem, isotropic, upper)
        return self._compete(pilot, sigma, isotropic, grown, top, upper)

    def _grow(self, problem: Problem, isotropic: Tensor, upper: float) -> Tensor:
        full = isotropic.expand(problem.query.x.shape).contiguous()

        def height(gap: Tensor, theta: Tensor) -> Tensor:
            flat = theta.flatten(1)
            return gap * flat.log().mean(1).exp() + self.kappa * gap * flat.amin(1)

        return self.ascent.climb(problem, full, height, lower=full, upper=upper)

    def _compete(
        self, pilot: Pilot, sigma: float, isotropic: Tensor, grown: Tensor, top: NDArray[np.int64], upper: float
    ) -> Tensor:
        """The winner for each input."""
        x, norm = pilot.query.x, pilot.query.smoothing.norm
        farthest = reach(x, norm) if self.isotropic.bounded_reach else np.full(len(x), np.inf)
        round_ = isotropic.expand(x.shape)
        shapes = torch.stack([round_, *self._shapes(round_, grown, upper)], 1)
        radius, proxy, extent = sizes(shapes, pilot.gaps(pilot.votes(shapes, self.pilots[0]), top), norm)
        hopeful = (radius >= radius[:, :1]) & (extent <= farthest[:, None])
        by_proxy = np.where(hopeful, proxy, 0.0)[:, 1:].argsort(1)[:, ::-1] + 1
        safest = np.where(extent <= farthest[:, None], radius, 0.0)[:, 1:].argmax(1) + 1
        finalists = [take(shapes, by_proxy[:, i].copy()) for i in range(min(self.finalists, by_proxy.shape[1]))]
        fixed = torch.full_like(isotropic, sigma).expand(x.shape)
        final = torch.stack([fixed, round_, *finalists, take(shapes, safest)], 1)
        counts = pilot.votes(final, self.pilots[1])
        # The better of fixed and isotropic is the floor: what is certified instead must not have the smaller ball.
        radius, _, _ = sizes(final[:, :2], pilot.gaps(counts[:, :2], top), norm)
        floor = radius.argmax(1)
        radius, proxy, extent = sizes(final, pilot.gaps(counts, top, replaced=floor), norm)
        fair = (radius >= TIE * np.take_along_axis(radius, floor[:, None], 1)) & (extent <= farthest[:, None])
        fair[np.arange(len(x)), floor] = True
        return take(final, np.where(fair, proxy, -1.0).argmax(1))

    @staticmethod
    def _shapes(isotropic: Tensor, grown: Tensor, limit: float) -> list[Tensor]:
        """Part of the way from isotropic to grown theta, times some scales."""
        ratio = grown / isotropic
        return [(isotropic * ratio**part * scale).clamp(max=limit) for part in BLENDS for scale in SCALES.tolist()]
