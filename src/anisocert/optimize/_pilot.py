"""Pilot votes: hard votes of stage 0 that let candidates for theta compete. They choose; they certify nothing.

All candidates of an input see the same noise, so that their differences are less noisy than their values.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Query, Stage, count_votes, top_and_runner_up
from anisocert.engine.numerics import ALIGN
from anisocert.optimize.reach import extent

Floats = NDArray[np.float64]
CANDIDATES_AT_ONCE = 4096
DOUBT = 2.0  # standard deviations: several candidates try, and the luckiest must not win by its luck
PLENTY = 10_000  # votes of a plan, below which the search takes fewer too
BLOCKS = 8  # in which votes are counted, to see how much candidates differ by chance


@dataclass(frozen=True, eq=False)
class Pilot:
    """Estimates what each candidate would certify. thrifty: with fewer votes where the plan's are few."""

    query: Query
    plan: Plan
    thrifty: bool = False

    def votes(self, theta: Tensor, share: float) -> NDArray[np.int64]:
        """Counts of a share of the plan's n votes for each candidate, in BLOCKS of votes on the same noise.

        theta: `b x c x ...` -> `b x c x blocks x num_classes`.
        """
        b, c = theta.shape[:2]
        looks = [pilot_votes(self.plan, share, self.thrifty) // BLOCKS * (i + 1) for i in range(BLOCKS)]
        counts = np.zeros((b * c, BLOCKS, self.query.network.num_classes), np.int64)
        step = max(1, CANDIDATES_AT_ONCE // c)
        for first in range(0, b, step):
            part = self.query.part([i for i in range(first, min(first + step, b)) for _ in range(c)])
            scales = part.smoothing.scales(theta[first : first + step].flatten(0, 1))
            for tally in count_votes(part, scales, Stage.PILOT, looks):
                counts[first * c + tally.position] = tally.history
        return np.diff(counts, axis=1, prepend=0).reshape(b, c, BLOCKS, -1)

    def gaps(
        self,
        counts: NDArray[np.int64],
        top: NDArray[np.int64],
        replaced: NDArray[np.int64] | None = None,
        unseen: int = 1,
    ) -> Floats:
        """The gap the plan would certify for class `top` at these shares. counts: of `votes`; top: `b` -> `b x c`.

        unseen: as in Plan.projected; 0 takes candidates at their best. replaced: the candidate of each input, `b`, that
        another would replace, taken at its best. Its votes and the others' were on the same noise, and what differs
        block by block tells how far chance could be the reason: the others' gaps are taken lower by DOUBT standard
        deviations of that.
        """
        total = counts.sum(2)
        k, second = top_and_runner_up(total, top[:, None])
        missing = np.full(k.shape, unseen)
        if replaced is not None:
            of_top = np.take_along_axis(counts, top[:, None, None, None], 3)[..., 0]
            difference = of_top - np.take_along_axis(of_top, replaced[:, None, None], 1)
            k = np.maximum(k - np.ceil(DOUBT * math.sqrt(BLOCKS) * difference.std(2, ddof=1)).astype(np.int64), 0)
            missing[np.arange(len(k)), replaced] = 0
        p_a, p_b = self.plan.projected(k, second, total.sum(2), self.query.network.num_classes, unseen=missing)
        return self.query.smoothing.gap(p_a, p_b)


def effort(plan: Plan) -> float:
    """Factor on costs of a search that do not otherwise depend on the plan: 1, or less where its votes are few."""
    return min(1.0, math.sqrt(plan.n / PLENTY))


def pilot_votes(plan: Plan, share: float, thrifty: bool = False) -> int:
    """Pilot votes per candidate, for a share of the plan's n: some in every block, no padding in a network call."""
    if thrifty and plan.n < PLENTY:
        return ALIGN * max(2, round(effort(plan) * BLOCKS), round(share * plan.n / ALIGN))
    unit = BLOCKS * ALIGN
    return unit * max(1, round(share * plan.n / unit))


def sizes(theta: Tensor, gap: Floats, norm: int) -> tuple[Floats, Floats, Floats]:
    """(radius, proxy radius, extent) of candidates' regions. theta: `b x c x ...`; gap: `b x c` -> three of `b x c`."""
    flat = theta.flatten(2).double()
    smallest = flat.amin(2).cpu().numpy()
    proxy = flat.log().mean(2).exp().cpu().numpy()
    return gap * smallest, gap * proxy, gap * extent(flat, norm).cpu().numpy()


def take(theta: Tensor, index: NDArray[np.int64]) -> Tensor:
    """One candidate of each input. theta: `b x c x ...`; index: `b`."""
    return theta[torch.arange(len(theta), device=theta.device), torch.from_numpy(index).to(theta.device)]
