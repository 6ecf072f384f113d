"""A theta of the input's own shape: anisotropic certification by volume maximisation (ANCER, Eiras et al. 2022)."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Query
from anisocert.errors import ArgumentError
from anisocert.inputs import told
from anisocert.optimize._ceiling import Limits
from anisocert.optimize._pilot import Floats, Pilot, effort, pilot_votes, sizes, take
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.base import Method, scalar_theta
from anisocert.optimize.domain import Domain, check_domain, proxy_inside
from anisocert.optimize.isotropic import Isotropic, check_pilots
from anisocert.optimize.soft import Outputs, Problem

Prefer = Literal["volume", "ball"]

ASCENTS: dict[Prefer, tuple[tuple[float, float], ...]] = {  # weight of the gap, learning rate
    "ball": ((6.0, 0.16), (2.5, 0.3)),
    "volume": ((2.5, 0.16), (1.0, 0.3)),
}
SMALL = 0.1  # a gap below which its logarithm goes on as a straight line: a gap may be negative at first
SCALES = 2.0 ** (np.arange(-4, 3) / 6)  # of each shape, for the pilot votes to choose from
PEAKS = (1 / 2, 3 / 4)  # only values that grew by at least this power of the largest ratio, the others as they were
IDLE = 1e-4  # of the largest squared slope: coordinates with less do not matter, whatever soft votes say of the others
FEW = len(PEAKS) + 1  # candidates in which few values differ from isotropic theta
ROOM, SAFE_ROOM = 0.97, 0.8  # of the reach, for what had to be made smaller: more votes may give a larger gap
TIE = 0.99  # of a radius: less is a loss
OURS = Ascent(120, 100, ASCENTS["ball"][0][1], adam=True, logarithmic=True, averaged=True, centred=True)
FEWEST, VOTES_PER_COPY = 16, 1000  # copies per step are so many at least, and one for so many of the plan's votes


@dataclass(frozen=True)
class Anisotropic(Method):
    """One noise level for each value of each input: the largest regions, for models with gradients.

    The search grows theta from the isotropic one, then lets fixed, isotropic and anisotropic candidates compete. Two
    ascents maximise weight * log gap + mean log theta, keeping theta at least isotropic and regions within reach: the
    first with a large weight, the second, from there, with a smaller one, for more volume and less gap. The candidates
    are both results at several scales, and isotropic thetas in which only the values that grew most, or those that do
    not matter, have grown: what is left where all else costs too much. A certificate is about the classifier with the
    noise chosen for its input; a `Memory` makes promises of one system from many of them.

    Args:
        prefer: "ball": of the candidates whose estimated radius is not below those of fixed and isotropic theta, the
            one of largest estimated proxy radius wins; "volume": of all that are certified.
        domain: (low, high) of valid inputs: the part of a region outside it counts for nothing.
        ascent: settings of both ascents, but for their learning rates, which are in ASCENTS; with a plan of few votes
            there are fewer samples and steps.
        isotropic: the starting point, whose limits hold here too.
        pilots: votes per candidate, as shares of the plan's n, in the first round and in the second: fixed, isotropic,
            the `finalists` of largest proxy radius, the best of the FEW and the one of largest radius.
        finalists: how many candidates of largest proxy radius reach the second round.
        outputs: whether the model returns "logits" or "probabilities": the search needs to know, votes do not.
    """

    prefer: Prefer = "ball"
    domain: Domain | None = None
    ascent: Ascent = OURS
    isotropic: Isotropic = field(default=Isotropic())
    pilots: tuple[float, float] = (0.01, 0.1)
    finalists: int = 2
    outputs: Outputs = "logits"

    name = "anisotropic"
    searches = True

    def __post_init__(self) -> None:
        if self.prefer not in get_args(Prefer):
            raise ArgumentError(f"expected prefer 'ball' or 'volume', got {self.prefer!r}")
        if self.domain is not None:
            check_domain(self.domain)
        if not isinstance(self.isotropic, Isotropic):
            raise ArgumentError(f"expected isotropic as in isotropic=ac.Isotropic(), got {told(self.isotropic)}")
        if self.outputs not in get_args(Outputs):
            raise ArgumentError(f"expected outputs 'logits' or 'probabilities', got {self.outputs!r}")
        check_pilots(self.pilots)
        if not isinstance(self.ascent, Ascent):
            raise ArgumentError(f"expected ascent as in anisocert.optimize.Ascent(), got {told(self.ascent)}")
        if not isinstance(self.finalists, int) or self.finalists < 1:
            raise ArgumentError(f"expected finalists, a whole number >= 1, got {told(self.finalists)}")

    def ascents(self, plan: Plan) -> tuple[Ascent, ...]:
        """See Method."""
        samples = min(self.ascent.samples, max(FEWEST, plan.n // VOTES_PER_COPY))
        ascent = replace(self.ascent, iterations=math.ceil(effort(plan) * self.ascent.iterations), samples=samples)
        return tuple(replace(ascent, learning_rate=rate) for _, rate in ASCENTS[self.prefer])

    def pilot_votes(self, plan: Plan, model: Classifier | None = None) -> int:
        """See Method."""
        scaled = len(ASCENTS[self.prefer]) * len(SCALES)
        candidates = (1 + scaled + FEW, 4 + min(self.finalists, scaled))
        rounds = zip(candidates, self.pilots, strict=True)
        votes = sum(count * pilot_votes(plan, share, thrifty=True) for count, share in rounds)
        return self.isotropic.pilot_votes(plan, thrifty=True) + votes

    def limit_for(self, shape: tuple[int, ...]) -> float:
        """See Method."""
        return self.isotropic.limit_for(shape)

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        sigma, pilot = scalar_theta(self, query.smoothing), Pilot(query, plan, thrifty=True)
        if self.domain is not None:
            check_domain(self.domain, query.x)
        limits = Limits.of(query, sigma * self.limit_for(query.shape), self.isotropic.bounded_reach, self.domain)
        isotropic, top = self.isotropic.search(pilot, sigma)
        start = isotropic.expand(query.x.shape).contiguous()
        problem = Problem(query, self.outputs, torch.from_numpy(top).to(query.x.device))
        grown, ascents = [start], self.ascents(plan)
        for (weight, _), ascent in zip(ASCENTS[self.prefer], ascents, strict=True):
            grown.append(ascent.climb(problem, grown[-1], partial(_height, weight), lower=start, limits=limits))
        few = [*_peaks(start, grown[-1]), _idle(start, grown[-1], ascents[-1].sensitivity(problem, start))]
        scaled = [(shape * scale).clamp(max=limits.upper) for shape in grown[1:] for scale in SCALES.tolist()]
        return self._compete(pilot, sigma, [start, *scaled, *few], top, limits)

    def _compete(
        self, pilot: Pilot, sigma: float, candidates: list[Tensor], top: NDArray[np.int64], limits: Limits
    ) -> Tensor:
        """The winner for each input. candidates: isotropic theta first, the FEW last."""
        isotropic, shapes = candidates[0], torch.stack(candidates[1:], 1)
        counts = pilot.votes(torch.stack(candidates, 1), self.pilots[0])
        gaps, at_best = pilot.gaps(counts, top), pilot.gaps(counts, top, unseen=0)[:, 1:]
        shapes = limits.fit(shapes, at_best, ROOM)
        floor, _, _ = self._sizes(pilot, isotropic.unsqueeze(1), gaps[:, :1])
        radius, proxy, _ = self._sizes(pilot, shapes, gaps[:, 1:])
        least = floor if self.prefer == "ball" else np.finfo(float).tiny
        by_proxy = np.where(radius >= least, proxy, 0.0)
        best = by_proxy.argsort(1)[:, ::-1][:, : self.finalists]
        few = by_proxy[:, -FEW:].argmax(1)[:, None] + shapes.shape[1] - FEW
        contenders = _taken(shapes, np.concatenate([best, few], 1))
        safest = radius.argmax(1)[:, None]
        safe = limits.fit(_taken(shapes, safest), np.take_along_axis(at_best, safest, 1), SAFE_ROOM)
        final = torch.cat([torch.stack([torch.full_like(isotropic, sigma), isotropic], 1), contenders, safe], 1)
        return take(final, self._winner(pilot, final, top, limits))

    def _winner(self, pilot: Pilot, final: Tensor, top: NDArray[np.int64], limits: Limits) -> NDArray[np.int64]:
        """Which of the last candidates. final: `b x c x ...`, fixed and isotropic theta first."""
        counts = pilot.votes(final, self.pilots[1])
        # The better of fixed and isotropic is the floor: what is certified instead must not have the smaller ball.
        radius, _, _ = self._sizes(pilot, final[:, :2], pilot.gaps(counts[:, :2], top))
        floor = radius.argmax(1)
        radius, proxy, extent = self._sizes(pilot, final, pilot.gaps(counts, top, replaced=floor))
        least = TIE * np.take_along_axis(radius, floor[:, None], 1)
        fair = radius >= (least if self.prefer == "ball" else np.finfo(float).tiny)
        fair &= extent <= limits.farthest.unsqueeze(1).double().cpu().numpy()
        fair[np.arange(len(floor)), floor] = True
        winner: NDArray[np.int64] = np.where(fair, proxy, -1.0).argmax(1)
        return winner

    def _sizes(self, pilot: Pilot, theta: Tensor, gaps: Floats) -> tuple[Floats, Floats, Floats]:
        """(radius, proxy radius inside the domain, extent) of candidates' regions."""
        radius, proxy, extent = sizes(theta, gaps, pilot.query.smoothing.norm)
        if self.domain is not None:
            proxy = proxy_inside(theta, gaps, pilot.query.x, self.domain)
        return radius, proxy, extent


def _height(weight: float, gap: Tensor, theta: Tensor) -> Tensor:
    """What the ascent maximises."""
    line = gap / SMALL + math.log(SMALL) - 1
    log_gap = torch.where(gap > SMALL, gap.clamp(min=SMALL).log(), line)
    return weight * log_gap + theta.flatten(1).log().mean(1)


def _taken(shapes: Tensor, places: NDArray[np.int64]) -> Tensor:
    """Some candidates of each input. shapes: `b x c x ...`; places: `b x k` -> `b x k x ...`."""
    return torch.stack([take(shapes, place.copy()) for place in places.T], 1)


def _peaks(isotropic: Tensor, grown: Tensor) -> list[Tensor]:
    """Isotropic theta but for the values that grew most."""
    growth = (grown / isotropic).log()
    largest = growth.flatten(1).amax(1).view(-1, *(1 for _ in growth.shape[1:]))
    return [torch.where(growth >= share * largest, grown, isotropic) for share in PEAKS]


def _idle(isotropic: Tensor, grown: Tensor, sensitivity: Tensor) -> Tensor:
    """Isotropic theta but for coordinates on which the answer hardly depends."""
    largest = sensitivity.flatten(1).amax(1).view(-1, *(1 for _ in isotropic.shape[1:]))
    return torch.where(sensitivity <= IDLE * largest, grown, isotropic)
