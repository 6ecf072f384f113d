"""Pilot votes: hard votes of stage 0 that let candidates for theta compete. They choose; they certify nothing.

All candidates of an input see the same noise, so that their differences are less noisy than their values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Network, Stage, count_votes
from anisocert.smoothing import Smoothing

Floats = NDArray[np.float64]
CANDIDATES_AT_ONCE = 4096
FEWEST = 400  # pilot votes, however small the plan


@dataclass(frozen=True, eq=False)
class Pilot:
    """Estimates what each candidate would certify. x: `b x *shape`; ids: `b`."""

    network: Network
    smoothing: Smoothing
    x: Tensor
    ids: Sequence[int]
    plan: Plan
    seed: int

    def votes(self, theta: Tensor, share: float) -> NDArray[np.int64]:
        """Counts of a share of the plan's n votes for each candidate. theta: `b x c x ...` -> `b x c x num_classes`."""
        b, c = theta.shape[:2]
        n = pilot_votes(self.plan, share)
        counts = np.zeros((b * c, self.network.num_classes), np.int64)
        step = max(1, CANDIDATES_AT_ONCE // c)
        for first in range(0, b, step):
            part = slice(first, first + step)
            x, scales = self.x[part].repeat_interleave(c, 0), self.smoothing.scales(theta[part].flatten(0, 1))
            ids = np.repeat(self.ids[part], c)
            for tally in count_votes(
                self.network, self.smoothing, x, scales, ids.tolist(), seed=self.seed, stage=Stage.PILOT, looks=[n]
            ):
                counts[first * c + tally.position] = tally.counts
        return counts.reshape(b, c, -1)

    def gaps(self, counts: NDArray[np.int64], top: NDArray[np.int64]) -> Floats:
        """The gap the plan would certify for class `top` at these shares. counts: `b x c x k`; top: `b` -> `b x c`.

        One vote more than was counted, for nobody: unanimous pilots must not promise what n unanimous votes would give.
        """
        k = np.take_along_axis(counts, top[:, None, None], 2)[..., 0]
        others = counts.copy()
        np.put_along_axis(others, top[:, None, None], -1, 2)
        p_a, p_b = self.plan.projected(k, others.max(2), counts.sum(2) + 1, self.network.num_classes)
        return self.smoothing.gap(p_a, p_b)


def pilot_votes(plan: Plan, share: float) -> int:
    """Pilot votes a candidate, for a share of the plan's n."""
    return max(FEWEST, round(share * plan.n))


def sizes(theta: Tensor, gap: Floats, norm: int) -> tuple[Floats, Floats, Floats]:
    """(radius, proxy radius, extent) of candidates' regions. theta: `b x c x ...`; gap: `b x c` -> three of `b x c`.

    The extent is the region's typical half-width, the mean of its semi-axes in the sense of the norm.
    """
    flat = theta.flatten(2).double()
    smallest = flat.amin(2).cpu().numpy()
    proxy = flat.log().mean(2).exp().cpu().numpy()
    extent = flat.square().mean(2).sqrt() if norm == 2 else flat.mean(2)
    return gap * smallest, gap * proxy, gap * extent.cpu().numpy()


def reach(x: Tensor, norm: int) -> Floats:
    """Half the distance of each image to the blank one of its mean: `b`; infinite for inputs that are no images.

    A blank image has no class; and regions of half this size around two unrelated images cannot meet.
    """
    if not is_image(x):
        return np.full(len(x), np.inf)
    contrast = (x - x.flatten(1).mean(1).view(-1, *(1 for _ in x.shape[1:]))).flatten(1).double()
    return np.asarray(contrast.norm(p=norm, dim=1).cpu().numpy() / 2)


def is_image(x: Tensor) -> bool:
    """Whether inputs have at least height and width, so that there is a blank one. x: `b x *shape`."""
    return x.dim() > 2


def take(theta: Tensor, index: NDArray[np.int64]) -> Tensor:
    """One candidate of each input. theta: `b x c x ...`; index: `b`."""
    return theta[torch.arange(len(theta), device=theta.device), torch.from_numpy(index).to(theta.device)]
