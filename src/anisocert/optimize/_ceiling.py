"""How large a region may be, and what keeps theta within that, during a search and after it."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.engine import Query
from anisocert.optimize.domain import Domain
from anisocert.optimize.reach import extent, reach

CUT = 0.1  # of the values may be lowered to one level
HALVINGS = 20  # of the range of levels
LEAST = 1e-3  # of theta is left, whatever its limits are


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of theta (`upper`) and of regions: of extent (`farthest`, `b`) and semi-axes (`walls`, `b x ...`)."""

    upper: float
    farthest: Tensor
    walls: Tensor
    norm: int

    @classmethod
    def of(cls, query: Query, upper: float, bounded_reach: bool = False, domain: Domain | None = None) -> "Limits":
        """Limits for a query's inputs. domain: of valid inputs; no axis need go beyond its farther wall."""
        x, norm = query.x, query.smoothing.norm
        farthest = x.new_full((len(x),), torch.inf)
        walls = farthest.view(-1, *(1 for _ in query.shape))
        if bounded_reach:
            farthest = torch.from_numpy(reach(x, norm)).float().to(x.device)
        if domain is not None:
            walls = torch.maximum(x - domain[0], domain[1] - x)
        return cls(upper, farthest, walls, norm)

    def part(self, places: Tensor) -> "Limits":
        """Limits for some of the inputs."""
        rows = places.to(self.farthest.device)
        return replace(self, farthest=self.farthest[rows], walls=self.walls[rows])

    def fit(self, theta: Tensor, gap: NDArray[np.float64], room: float) -> Tensor:
        """Candidates made smaller where their regions would not be. theta: `b x c x ...`; gap: `b x c`.

        room: how much of the reach a region may take.
        """
        gaps = torch.from_numpy(np.maximum(gap, 1e-9)).float().to(theta.device)
        walled = torch.minimum(theta, self.walls.unsqueeze(1) / gaps.view(*gaps.shape, *(1 for _ in theta.shape[2:])))
        most = room * self.farthest.unsqueeze(1) / gaps
        # A blank image has no reach at all, and there is no noise of scale 0.
        return fitted(walled.flatten(2), most, self.norm).view(theta.shape).maximum(LEAST * theta)


class Ceiling:
    """How large theta may be after a step, by the mean gap of the last steps.

    An input's ceiling comes down by LOWERING after each step after which its region's extent exceeds the farthest, and
    goes up again after each other step. So what theta loses are its largest values, which give the extent most and the
    volume least.
    """

    LOWERING, MEMORY = 0.9, 0.8

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._level, self._gap = torch.full_like(limits.farthest, limits.upper), torch.zeros_like(limits.farthest)
        self._weight = 0.0

    def over(self, theta: Tensor, gap: Tensor) -> Tensor:
        """Theta after a step, below its ceiling; gap: at this step. theta: `b x ...`; gap: `b`."""
        limits, trailing = self.limits, (1 for _ in theta.shape[1:])
        self._gap = self.MEMORY * self._gap + (1 - self.MEMORY) * gap
        self._weight = self.MEMORY * self._weight + 1 - self.MEMORY
        mean = (self._gap / self._weight).clamp(min=1e-9).view(-1, *trailing)
        bounded = torch.minimum(torch.minimum(theta, self._level.view(mean.shape)), limits.walls / mean)
        far = extent(bounded.flatten(1), limits.norm) * mean.flatten() > limits.farthest
        level = torch.where(far, self._level * self.LOWERING, self._level / self.LOWERING)
        self._level = level.clamp(max=limits.upper)
        return bounded


def fitted(theta: Tensor, most: Tensor, norm: int) -> Tensor:
    """Theta as it is where its extent is at most `most`, else made smaller until it is.

    First its largest values are lowered to one level, which costs little volume: a tenth of them at most, as a shape
    that is cut down to a ball loses what it was found for. Then all are scaled. theta: `... x d`; most: `...`.
    """
    most = most.unsqueeze(-1)
    largest = theta.topk(max(1, int(CUT * theta.shape[-1]))).values
    low, high = largest[..., -1:], largest[..., :1]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = extent(torch.minimum(theta, middle), norm).unsqueeze(-1) <= most
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    cut = torch.minimum(theta, low)
    cut = cut * (most / extent(cut, norm).unsqueeze(-1)).clamp(max=1)
    return torch.where(extent(theta, norm).unsqueeze(-1) <= most, theta, cut)
