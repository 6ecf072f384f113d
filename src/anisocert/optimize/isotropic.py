"""One theta per input (data-dependent smoothing, Alfarra et al. 2022)."""

import logging
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Query
from anisocert.errors import ArgumentError
from anisocert.inputs import told
from anisocert.optimize._pilot import Floats, Pilot, pilot_votes, sizes
from anisocert.optimize.base import Method, scalar_theta
from anisocert.optimize.reach import is_image, reach
from anisocert.rounding import float32_down

log = logging.getLogger(__name__)

COARSE = 2.0 ** (np.arange(-6, 13) / 2)  # times the noise's own theta, as far as the limit
FINE = 2.0 ** (np.arange(-3, 4) / 8)  # around the best of the coarse ones
FAR, NEAR = 32.0, 6.0  # limits of theta with and without another bound on the region


@dataclass(frozen=True)
class Isotropic(Method):
    """One noise level per input: the scale with the largest estimated radius, by a search over pilot votes.

    Needs no gradients, so that any function will do as the model. A certificate is about the classifier with the noise
    chosen for its input; a `Memory` makes promises of one system from many of them.

    Args:
        limit: the largest theta, in multiples of the noise's own. Default: 32 for images, whose reach is bounded too,
            else 6.
        bounded_reach: whether an image's region may reach no farther than half the way to the blank image.
        pilots: votes per candidate in the coarse and in the fine search, as shares of the plan's n.
    """

    limit: float | None = None
    bounded_reach: bool = True
    pilots: tuple[float, float] = (0.01, 0.04)

    name = "isotropic"
    searches = True

    def __post_init__(self) -> None:
        if not isinstance(self.limit, int | float | None) or (self.limit is not None and not self.limit >= 1):
            raise ArgumentError(f"expected limit, a number >= 1, got {told(self.limit)}")
        check_pilots(self.pilots)

    def limit_for(self, shape: tuple[int, ...]) -> float:
        """See Method."""
        if self.limit is not None:
            return self.limit
        return FAR if self.bounded_reach and is_image(shape) else NEAR

    def pilot_votes(self, plan: Plan, model: Classifier | None = None, thrifty: bool = False) -> int:
        """See Method; thrifty: see Pilot."""
        candidates = (int(((self.limit or FAR) >= COARSE).sum()), 1 + len(FINE))
        rounds = zip(candidates, self.pilots, strict=True)
        return sum(count * pilot_votes(plan, share, thrifty) for count, share in rounds)

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        theta, _ = self.search(Pilot(query, plan), scalar_theta(self, query.smoothing))
        return theta

    def search(self, pilot: Pilot, sigma: float) -> tuple[Tensor, NDArray[np.int64]]:
        """(theta, class) of each input: `b x 1 x ...` and `b`."""
        x, norm, limit = pilot.query.x, pilot.query.smoothing.norm, self.limit_for(pilot.query.shape)
        farthest = reach(x, norm) if self.bounded_reach else np.full(len(x), np.inf)
        coarse = np.tile(sigma * COARSE[limit >= COARSE], (len(x), 1))
        theta = _column(coarse, x)
        counts = pilot.votes(theta, self.pilots[0])
        # The class to certify is the one that leads under the noise the network was trained on: it is the most accurate
        # there, while far more noise may make one class win everywhere.
        top = counts[:, int(np.argmin(np.abs(coarse[0] - sigma)))].sum(1).argmax(1)
        best = _best(theta, pilot.gaps(counts, top), norm, farthest)
        fine = np.minimum(coarse[np.arange(len(x)), best][:, None] * FINE, sigma * limit)
        fine = np.concatenate([np.full((len(x), 1), sigma), fine], axis=1)
        theta = _column(fine, x)
        # a scale replaces the noise's own only where it is better beyond chance
        gaps = pilot.gaps(pilot.votes(theta, self.pilots[1]), top, replaced=np.zeros(len(x), np.int64))
        best = _best(theta, gaps, norm, farthest)
        chosen = fine[np.arange(len(x)), best]
        at_limit = int((chosen >= sigma * limit * (1 - 1e-9)).sum())
        if at_limit:
            log.info("theta is at its limit of %g x %g for %d of %d inputs", limit, sigma, at_limit, len(x))
        return _column(chosen[:, None], x)[:, 0], top


def check_pilots(pilots: object) -> None:
    """An error unless there is a positive share for each of the two rounds."""
    if not (isinstance(pilots, tuple | list) and len(pilots) == 2 and min(pilots) > 0):
        raise ArgumentError(f"expected pilots > 0, two shares of the plan's n, as in (0.01, 0.1), got {pilots!r}")


def _best(theta: Tensor, gaps: Floats, norm: int, farthest: Floats) -> NDArray[np.int64]:
    """The candidate of largest radius among those within reach; the first one of equals."""
    radius, _, extent = sizes(theta, gaps, norm)
    best: NDArray[np.int64] = np.where(extent <= farthest[:, None], radius, -1.0).argmax(1)
    return best


def _column(values: NDArray[np.float64], x: Tensor) -> Tensor:
    """Scalars as isotropic thetas, rounded down to float32. values: `b x c` -> `b x c x 1 x ...`."""
    return torch.from_numpy(float32_down(values)).to(x.device).view(*values.shape, *(1 for _ in x.shape[1:]))
