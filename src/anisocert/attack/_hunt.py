"""The search for points that a whole system answers otherwise, for one group of inputs.

A system chooses its noise anew at every point, so no gradient leads through it. The search climbs under the noise that
the network was trained with and under the theta that the system chose when it was last asked; then it asks, and climbs
again under the theta that came back. What it climbs and judges by is noise of its own; the system's is fresh.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anisocert.attack._ball import length, starts
from anisocert.attack._clean import Clean
from anisocert.attack._targets import Targets, codes_of
from anisocert.attack.search import INSIDE, Finder, Search
from anisocert.certificate import ABSTAIN
from anisocert.engine import Query
from anisocert.optimize.domain import Domain
from anisocert.system import System

QUESTIONS = 4  # to the system, per input and limit: each costs a whole certificate
RIVALS = 3
PROMISING = -0.7  # a rival's lead, as a share of the votes, from which the noise at another point may change the answer
CLOSE = -0.1  # the same under the very noise that the system uses


@dataclass(frozen=True, eq=False)
class Limit:
    """Where to look: the points of gauge at most 1 around k inputs.

    places: `k`, which of the group. axes: `k x d`. top: `k`, the class that should be given there. covered: `k`,
    whether the run itself promises that class everywhere in this limit.
    """

    places: NDArray[np.int64]
    axes: NDArray[np.float64]
    top: NDArray[np.int64]
    covered: NDArray[np.bool_]


class Hunt:
    """The attack on one group of clean inputs.

    said: `m`, the system's answers to the clean inputs. errors: for each input, the probabilities of an error in the
    questions asked at points that the run's own promise covers. questions: how many were asked in all. domain: range of
    valid inputs, within which the adversary stays.
    """

    def __init__(self, system: System, clean: Clean, how: Search, domain: Domain | None = None) -> None:
        self.system, self.clean, self.how, self.questions = system, clean, how, 0
        self.shape, device = clean.x.shape[1:], system.network.device
        x, top = torch.from_numpy(clean.x).to(device), torch.from_numpy(clean.labels).to(device)
        query, flat = Query(system.network, system.smoothing, x, clean.ids, how.seed), x.flatten(1)
        training = self._thetas([system.smoothing.theta] * len(clean))
        axes = torch.ones_like(flat, dtype=torch.float64)
        self.code = codes_of(system.network, [None] * len(clean))  # and that theta's, where they have own networks
        self.base = Targets(query, flat.double(), axes, training, top, domain, self.code)
        self.finder = Finder(self.base, how)
        self.theta = training.clone()  # what the system chose when it was last asked
        self.away = torch.zeros_like(flat)  # the most hostile change so far
        self.errors: list[list[float]] = [[] for _ in clean.ids]
        self.said = self._ask(np.arange(len(clean)), clean.x, clean.promised != ABSTAIN)
        self.rivals = self.finder.rivals(self.base, RIVALS)
        self._generator = torch.Generator().manual_seed(how.seed % 2**63)

    def _thetas(self, thetas: Sequence[ArrayLike]) -> Tensor:
        rows = np.stack([np.broadcast_to(np.asarray(theta, np.float32), self.shape) for theta in thetas])
        return torch.from_numpy(rows).flatten(1).to(self.system.network.device)

    def _ask(
        self, places: NDArray[np.int64], points: NDArray[np.float32], covered: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """The system's answers about a point of each of some inputs; the thetas that it chose are kept."""
        proposals = self.system.propose(points.reshape(-1, *self.shape))
        self.questions += len(proposals)
        at = torch.from_numpy(places)
        self.theta[at] = self._thetas([proposal.theta for proposal in proposals])
        if (
            self.code is not None
            and (codes := codes_of(self.system.network, [proposal.codes for proposal in proposals])) is not None
        ):
            self.code = self.code.index_put((at.to(codes.device),), codes)
        for place, proposal in zip(places[covered].tolist(), np.array(proposals)[covered], strict=True):
            self.errors[place].append(proposal.alpha)
        return np.array([proposal.prediction for proposal in proposals], np.int64)

    def search(self, limit: Limit) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(answer, point), the most hostile found: `k` and `k x *shape`; the answer is `top` where all points had it.

        Another class is more hostile than an abstention.
        """
        at, device = torch.from_numpy(limit.places), self.base.x.device
        axes, top = torch.from_numpy(limit.axes).to(device), torch.from_numpy(limit.top).to(device)
        targets = replace(self.base.part(at), axes=axes, top=top)
        leaders, lead = self._first(targets, at)
        answers, points = limit.top.copy(), np.zeros(limit.axes.shape, np.float32)
        remaining, under = torch.arange(len(at), device="cpu"), targets.theta
        for question in range(QUESTIONS):
            subset, now = targets.part(remaining), remaining.numpy()
            here = subset.points(leaders[remaining, 0]).cpu().numpy()
            replies = self._ask(limit.places[now], here, limit.covered[now])
            kept, other = answers[now] == limit.top[now], (replies != limit.top[now]) & (replies != ABSTAIN)
            points[now[kept | other]] = here[kept | other]
            answers[now] = np.where(kept | other, replies, answers[now])
            latest = self._latest(subset, at[remaining])
            hopeless = (latest.theta == under).all(1) & (lead < CLOSE)
            lost = other | ((replies == ABSTAIN) & ~limit.covered[now])  # of what is promised, another class says more
            stay = ~(torch.from_numpy(lost) | hopeless.cpu())
            remaining, latest = remaining[stay], latest.part(stay.nonzero()[:, 0])
            if question == QUESTIONS - 1 or not len(remaining):
                break
            leaders[remaining], lead = self._again(latest, leaders[remaining])
            stay = (lead > PROMISING).cpu()
            remaining, lead, under = remaining[stay], lead[stay], latest.theta[stay]
            if not len(remaining):
                break
        self.away[at] = (axes * leaders[:, 0].double()).float()
        return answers, points.reshape(-1, *self.shape)

    def _first(self, targets: Targets, at: Tensor) -> tuple[Tensor, Tensor]:
        """(the best points under the noise of training and under the last theta, the lead at the former).

        From the centre, from the best change so far, stretched to the limit, and from random points; the first two
        towards whichever class leads, the others towards the likeliest rivals; in turns under the two noises.
        """
        count, (k, d), device = self.how.starts, targets.x.shape, targets.x.device
        begin = starts(count, (len(self.base), d), targets.norm, self._generator)[at].to(device)
        toward = torch.full((k, count), -1, device=device)
        if count > 1:
            before = self.away[at].double() / targets.axes
            size = length(before, targets.norm).unsqueeze(1)
            begin[:, 1] = torch.where(size > 0, before / size.clamp_min(1e-30), begin[:, 1].double()).float()
            rivals = torch.arange(count - 2, device="cpu") % self.rivals.shape[1]
            toward[:, 2:] = self.rivals[at][:, rivals]
        # A promised class that is not the label may be one of the label's rivals.
        toward = torch.where(toward == targets.top.unsqueeze(1), -1, toward)
        every, latest = targets.repeated(count), self._latest(targets, at).repeated(count)
        turns = (torch.arange(count, device=device) % 2 == 1).repeat(k)
        turned = replace(every, theta=torch.where(turns.unsqueeze(1), latest.theta, every.theta))
        if latest.code is not None and every.code is not None:
            turned = replace(turned, code=torch.where(turns, latest.code, every.code))
        u = self.finder.climb(turned, begin.flatten(0, 1), begin.new_ones(k * count), self.how.steps, toward.flatten())
        u = every.settled(u, INSIDE)
        lead = self.finder.judge(every, u)[0].view(k, count)
        again = self.finder.judge(latest, u)[0].view(k, count)
        first, second = lead.argmax(1, keepdim=True), again.argmax(1, keepdim=True)
        leaders = u.view(k, count, d).gather(1, torch.cat([first, second], 1).unsqueeze(2).expand(-1, -1, d))
        return leaders, lead.gather(1, first)[:, 0]

    def _again(self, targets: Targets, leaders: Tensor) -> tuple[Tensor, Tensor]:
        """As `_first`, under the theta of the targets: the best of the leaders and of where they lead."""
        k, count, d = leaders.shape
        every = targets.repeated(count)
        steps = max(1, self.how.steps // 2)
        ends = every.settled(
            self.finder.climb(every, leaders.flatten(0, 1), leaders.new_ones(k * count), steps), INSIDE
        )
        u = torch.cat([leaders, ends.view(leaders.shape)], 1)
        lead = self.finder.judge(targets.repeated(2 * count), u.flatten(0, 1))[0]
        best = lead.view(k, -1).topk(count)
        return u.gather(1, best.indices.unsqueeze(2).expand(-1, -1, d)), best.values[:, 0]

    def _latest(self, targets: Targets, at: Tensor) -> Targets:
        """The targets under the theta that the system chose when it was last asked. at: which of the group they are."""
        code = None if self.code is None else self.code[at.to(self.code.device)]
        return replace(targets, theta=self.theta[at], code=code)
