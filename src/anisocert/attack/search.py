"""Looking for points that a smoothed classifier answers differently: projected gradient ascent under shared noise.

Everything happens in coordinates in which each region is the unit ball, so that one budget fits all of them. The ascent
follows soft votes, the expectation over noise of the class probabilities (as Salman et al. 2019 attack smoothed
classifiers); hard votes judge what it finds. None of this noise is that of any certificate.
"""

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from anisocert.attack._ball import length, project, starts, steepest
from anisocert.attack._targets import Targets
from anisocert.engine import Network, Stage
from anisocert.engine.settings import differentiating, repeatable
from anisocert.errors import ArgumentError, ModelError
from anisocert.optimize.soft import Outputs, Problem, SoftVotes

INSIDE = 1 - 1e-6  # of the gauge: what is called inside must be so beyond all rounding
GROWTH, SHORTER = 1.5, 0.93  # of the budget, while nothing is found and after something is
HALVINGS, REFINEMENTS = 7, 2
LONGEST_STEP, SHORTEST_STEP = 0.5, 0.05  # of the budget


@dataclass(frozen=True)
class Search:
    """How to look.

    starts: of the ascent inside a region. steps: of an ascent. samples: noisy copies per step, fresh in every step and
    the same for all starts. votes: hard votes that judge a point. reach: no change is looked for beyond this gauge.
    outputs: what the network returns. guide: a network that gives gradients, where the certified one does not. seed: of
    the attack's own noise.
    """

    starts: int = 4
    steps: int = 20
    samples: int = 32
    votes: int = 300
    reach: float = 16.0
    outputs: Outputs = "logits"
    guide: Network | None = field(default=None, repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.starts, self.steps, self.samples, self.votes) < 1 or not self.reach >= 1:
            raise ArgumentError(f"expected starts, steps, samples, votes and reach of at least 1, got {self}")
        if not 0 <= self.seed < 2**63:
            raise ArgumentError(f"expected seed, a whole number of 0 or more and below 2^63, got {self.seed}")


@dataclass(frozen=True, eq=False)
class Found:
    """The most hostile point inside each region, and the nearest that seems to be answered differently.

    inside, change: `m x d`, in units of the axes. rivals: `m x 2`, the class that leads, or is next, at each of them.
    """

    inside: Tensor
    change: Tensor
    rivals: Tensor


def search(targets: Targets, how: Search) -> Found:
    """Look inside each region, then beyond it until the answer changes, then back towards the centre."""
    finder = Finder(targets, how)
    inside, lead, rival = finder.inside()
    change, other = finder.beyond(inside, lead > 0, rival)
    return Found(inside, change, torch.stack([rival, other], 1))


class Finder:
    """The search, for one group of targets."""

    def __init__(self, targets: Targets, how: Search) -> None:
        self.targets, self.how = targets, how
        targets.query.network.fit(targets.query.shape, 0)
        self.rows = targets.query.network.gradient_rows(how.samples) // 2
        self.group = max(1, self.rows // how.samples)  # targets at a time
        try:
            self._problem(targets).require_gradients()
        except ModelError as error:
            raise ModelError(
                "expected a network with gradients to its input to search with, got none: in Python, Search(guide=...) "
                "takes another network that has them and answers alike"
            ) from error

    def _problem(self, targets: Targets) -> Problem:
        return Problem(replace(targets.query, network=self.how.guide or targets.query.network), self.how.outputs)

    def ascents(self) -> Tensor:
        """The ends of all ascents, inside by more than rounding: `m x starts x d`."""
        targets, count = self.targets, self.how.starts
        # Not the noise of votes: where the search begins may depend on anything.
        generator = torch.Generator().manual_seed(targets.query.seed % 2**63)
        begin = starts(count, (len(targets), targets.x.shape[1]), targets.norm, generator).to(targets.x.device)
        every = targets.repeated(count)
        u = self.climb(every, begin.flatten(0, 1), begin.new_ones(len(every)), self.how.steps)
        return every.settled(u, INSIDE).view(begin.shape)

    def inside(self) -> tuple[Tensor, Tensor, Tensor]:
        """(point, lead of the rival, rival) of the most hostile of all ascents: `m x d`, `m`, `m`."""
        u = self.ascents().flatten(0, 1)
        lead, rival = self.judge(self.targets.repeated(self.how.starts), u)
        best = lead.view(-1, self.how.starts).argmax(1)
        at = torch.arange(len(best), device=best.device) * self.how.starts + best
        return u[at], lead[at], rival[at]

    def beyond(self, u: Tensor, changes: Tensor, rival: Tensor) -> tuple[Tensor, Tensor]:
        """(point, rival), as near to the centre as a different answer was found. changes: where u has one already."""
        u, changes, rival = u.clone(), changes.clone(), rival.clone()
        budget, steps = u.new_ones(len(u), dtype=torch.float32), max(1, self.how.steps // 2)
        while bool((open_ := (~changes & (budget < self.how.reach)).nonzero()[:, 0]).numel()):
            budget[open_] = (budget[open_] * GROWTH).clamp(max=self.how.reach)
            subset = self.targets.part(open_.cpu())
            u[open_] = self.climb(subset, u[open_] * GROWTH, budget[open_], steps)
            lead, rival[open_] = self.judge(subset, u[open_])
            changes[open_] = lead > 0
        at = changes.nonzero()[:, 0]
        if at.numel():
            subset = self.targets.part(at.cpu())
            u[at], rival[at] = self._shorten(subset, u[at], rival[at])
            for _ in range(REFINEMENTS):
                budget = SHORTER * length(u[at], subset.norm)
                nearer = self.climb(subset, SHORTER * u[at], budget, steps)
                lead, other = self.judge(subset, nearer)
                better = lead > 0
                u[at] = torch.where(better.unsqueeze(1), nearer, u[at])
                rival[at] = torch.where(better, other, rival[at])
                u[at], rival[at] = self._shorten(subset, u[at], rival[at])
        return u, rival

    def _shorten(self, targets: Targets, u: Tensor, rival: Tensor) -> tuple[Tensor, Tensor]:
        """The same directions, as short as they can be with a different answer at their end, by halving."""
        low = u.new_zeros(len(u), dtype=torch.float32)
        high = torch.ones_like(low)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            lead, other = self.judge(targets, u * middle.unsqueeze(1))
            changed = lead > 0
            low, high = torch.where(changed, low, middle), torch.where(changed, middle, high)
            rival = torch.where(changed, other, rival)
        return u * high.unsqueeze(1), rival

    def judge(self, targets: Targets, u: Tensor) -> tuple[Tensor, Tensor]:
        """(lead of the best other class over the promised one, as a share of the votes; that class): `m`, `m`."""
        counts = torch.from_numpy(targets.votes(targets.points(u), [self.how.votes], Stage.SEARCH)).to(u.device)
        own = counts.gather(1, targets.top.unsqueeze(1))[:, 0]
        best, rival = counts.scatter(1, targets.top.unsqueeze(1), -1).max(1)
        return (best - own).double() / self.how.votes, rival

    def rivals(self, targets: Targets, count: int) -> Tensor:
        """The likeliest other classes at the centres, by soft votes: `m x count`, or fewer if there are fewer."""
        rivals = []
        # Where networks differ, the first one's: rivals are only where to begin.
        for _, group in replace(targets, code=None).groups(self.group):
            votes = SoftVotes(self._problem(group), max(1, self.rows // len(group)), Stage.SEARCH)
            with torch.no_grad(), repeatable():
                p = votes.mean(group.theta.view(group.query.x.shape), 0, self.how.samples)
            others = p.scatter(1, group.top.unsqueeze(1), -1.0)
            rivals.append(others.topk(min(count, p.shape[1] - 1)).indices)
        return torch.cat(rivals)

    @differentiating()
    def climb(self, targets: Targets, u: Tensor, budget: Tensor, steps: int, toward: Tensor | None = None) -> Tensor:
        """Ascend from u, never beyond a gauge of `budget`. u: `m x d`; budget: `m`.

        toward: `m`, the class to reach, or -1 for whichever other one leads.
        """
        budget = budget.to(u.device, u.dtype)
        toward = torch.full_like(targets.top, -1) if toward is None else toward
        done = torch.empty_like(u, dtype=torch.float32)
        for places, subset in targets.by_network():
            for part, group in subset.groups(self.group):
                here = places[part].to(u.device)
                with repeatable():
                    done[here] = self._climb(group, u[here], budget[here], steps, toward[here])
        return done

    def _climb(self, targets: Targets, u: Tensor, budget: Tensor, steps: int, toward: Tensor) -> Tensor:
        x, shape = targets.query.x, targets.query.x.shape
        axes, theta = targets.axes.float().view(shape), targets.theta.view(shape)
        votes = SoftVotes(self._problem(targets), max(1, self.rows // len(targets)), Stage.SEARCH)
        u = targets.valid(project(u.float(), budget, targets.norm))
        for i in range(steps):
            u = u.detach().requires_grad_(True)
            p = votes.mean(theta, i * self.how.samples, self.how.samples, x + axes * u.view(shape))
            log_p = p.clamp_min(1e-30).log()
            own = log_p.gather(1, targets.top.unsqueeze(1))[:, 0]
            leading = log_p.scatter(1, targets.top.unsqueeze(1), -math.inf).amax(1)
            rival = torch.where(toward < 0, leading, log_p.gather(1, toward.clamp_min(0).unsqueeze(1))[:, 0])
            (slope,) = torch.autograd.grad((rival - own).sum(), [u])
            swing = (1 + math.cos(math.pi * i / steps)) / 2
            step = SHORTEST_STEP + (LONGEST_STEP - SHORTEST_STEP) * swing
            with torch.no_grad():
                slope = targets.open(u, slope.nan_to_num())
                ahead = u + (step * budget).unsqueeze(1) * steepest(slope, targets.norm)
                u = targets.valid(project(ahead, budget, targets.norm))
        return u.detach()
