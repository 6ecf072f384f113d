"""Looks at tallies of the estimate stage: bounds and gap so far, and whether an input stops."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.engine.votes import Tally, top_and_runner_up
from anisocert.smoothing import Smoothing


class Judge:
    """Keeps the best bound of each input over its looks, and decides which inputs stop.

    top: `b`, the class that the selection stage chose; smallest_theta: `b`, what turns a gap into a radius; alphas:
    `b`, in place of the plan's. After the counting, `gap`, `p_a`, `p_b`, `bound_k`, `bound_n` and `runner_up` (all `b`)
    are those of the best look, or of the last one where none certifies: bounds at different looks hold at once, so
    choosing among them is allowed.
    """

    def __init__(
        self,
        plan: Plan,
        smoothing: Smoothing,
        num_classes: int,
        top: NDArray[np.int64],
        smallest_theta: NDArray[np.float64],
        alphas: NDArray[np.float64],
    ) -> None:
        self.plan, self.smoothing, self.num_classes, self.top = plan, smoothing, num_classes, top
        self.looks = np.array([look.n for look in plan.looks])
        of_looks = {alpha: [look.alpha for look in replace(plan, alpha=alpha).looks] for alpha in set(alphas.tolist())}
        self.alpha, self.alphas = alphas, np.array([of_looks[alpha] for alpha in alphas.tolist()])
        self.target = np.zeros(len(top)) if plan.target_radius is None else plan.target_radius / smallest_theta
        self.gap, self.p_a, self.p_b = np.full(len(top), -1.0), np.zeros(len(top)), np.ones(len(top))
        self.bound_k, self.bound_n, self.runner_up = (np.zeros(len(top), np.int64) for _ in range(3))

    def __call__(self, position: np.ndarray, look: np.ndarray, counts: np.ndarray) -> NDArray[np.bool_]:
        """Which inputs stop. position, look: `m`; counts: `m x num_classes`."""
        votes, (k, second) = self.looks[look], top_and_runner_up(counts, self.top[position])
        self._keep_best(position, look, k, second, votes)
        stops: NDArray[np.bool_] = look == len(self.looks) - 1
        if not self.plan.gives_up:
            return stops
        gap, target = self.gap[position], self.target[position]
        last = self.alphas[position, -1]
        hope = self.smoothing.gap(*self.plan.optimistic(k, second, votes, self.num_classes, last))
        stops |= (hope <= 0) | (hope < target)
        if self.plan.target_radius is not None:
            stops |= gap * (1 - 1e-9) >= target  # a region's axes are rounded down: a hair beyond the target
        elif self.plan.stop is not None:
            full = self.smoothing.gap(*self.plan.projected(k, second, votes, self.num_classes, last))
            stops |= (gap > 0) & (gap >= (1 - self.plan.tolerance) * full)
        return stops

    def reason(self, tally: Tally, label: int) -> str:
        """Why an input abstains after its last look; empty if it is certified. label: the class that top stands for."""
        i = tally.position
        if self.gap[i] > 0:
            return ""
        standing = f"class {label} has {tally.counts[self.top[i]]} of {tally.votes} votes"
        if tally.votes < self.plan.n:
            return f"given up before all {self.plan.n} votes: {standing}, too few to hope for a certificate"
        return f"not proven the most likely: {standing}, p_a = {self.p_a[i]:.4f}, p_b = {self.p_b[i]:.4f}"

    def _keep_best(
        self, position: np.ndarray, look: np.ndarray, k: np.ndarray, second: np.ndarray, votes: np.ndarray
    ) -> None:
        p_a, p_b = self.plan.estimate(k, second, votes, self.num_classes, self.alphas[position, look])
        gap = self.smoothing.gap(p_a, p_b)
        # The first look discards what was kept: a counting that began again, in a different batch shape, stands alone.
        # While nothing is certified, the latest look is the most informative.
        better = (look == 0) | (gap > self.gap[position]) | ((gap == 0) & (self.gap[position] == 0))
        at = position[better]
        self.gap[at], self.p_a[at], self.p_b[at] = gap[better], np.asarray(p_a)[better], np.asarray(p_b)[better]
        self.bound_k[at], self.bound_n[at], self.runner_up[at] = k[better], votes[better], second[better]
