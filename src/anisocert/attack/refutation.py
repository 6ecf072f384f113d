"""What a search found, put to the test with votes that it never saw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.attack._ball import length
from anisocert.attack._targets import Targets
from anisocert.attack.search import INSIDE, Found
from anisocert.bounds import binomial_test
from anisocert.engine import Stage

LADDER = (1.0, 1.04, 1.12, 1.3, 2.0)
"""The change that was found, and longer ones in its direction: the nearest may be too close to prove."""
POINTS = 1 + len(LADDER)
LOOKS = 2  # after a tenth of the votes, and after all: most points are decided early
HOPELESS = 0.01  # a lead of the promised class this significant will not reverse


@dataclass(frozen=True, eq=False)
class Point:
    """One point, as the network sees it, and the votes there for the promised class and for its rival."""

    x: NDArray[np.float32]
    gauge: float
    length: float
    own: int
    rival: int
    rival_votes: int
    votes: int
    changed: bool

    @property
    def inside(self) -> bool:
        """Whether it lies in the region, by more than rounding."""
        return self.gauge <= INSIDE


@dataclass(frozen=True, eq=False)
class Attacked:
    """What an attack on one certificate found.

    inside: the most hostile point of the region. change: the nearest point at which a different answer is proven,
    None if none was found. Its gauge and its length are upper bounds of what any certificate with this theta can
    reach there.
    """

    id: int
    prediction: int
    radius: float
    inside: Point
    change: Point | None

    @property
    def broken(self) -> bool:
        """Whether the promise is refuted."""
        return self.inside.changed or (self.change is not None and self.change.inside)


def refute(targets: Targets, found: Found, radii: Sequence[float], n: int, level: float) -> list[Attacked]:
    """Fresh votes at the points that were found. level: probability of a false "changed" for one target.

    A point is answered differently if a sign test proves that its rival has more votes than the promised class. Points
    and rivals were chosen without these votes, so that the level, shared by a target's points, holds.
    """
    steps = torch.tensor(LADDER, dtype=found.change.dtype, device=found.change.device)
    u = torch.cat([found.inside.unsqueeze(1), found.change.unsqueeze(1) * steps.view(1, -1, 1)], 1)
    rivals = torch.cat([found.rivals[:, :1], found.rivals[:, 1:].expand(-1, len(LADDER))], 1).cpu().numpy()
    every = targets.repeated(POINTS)
    points = every.points(u.flatten(0, 1))
    trial = _Trial(every.top.cpu().numpy(), rivals.ravel(), level / POINTS / LOOKS)
    counts = every.votes(points, [max(1, n // 10), n], Stage.REFUTE, trial).reshape(len(targets), POINTS, -1)
    gauges = every.gauges(points).view(-1, POINTS).cpu().numpy()
    lengths = length(points.double() - every.x, targets.norm).view(-1, POINTS).cpu().numpy()
    top = targets.top.cpu().numpy()
    own = np.take_along_axis(counts, top[:, None, None], 2)[..., 0]
    rival_votes = np.take_along_axis(counts, rivals[..., None], 2)[..., 0]
    changed, votes = trial.changed.reshape(-1, POINTS), counts.sum(2)
    inputs = points.view(-1, POINTS, *targets.query.shape).cpu().numpy()
    results = []
    for i, radius in enumerate(radii):
        candidates = [
            Point(
                inputs[i, j], float(gauges[i, j]), float(lengths[i, j]), int(own[i, j]), int(rivals[i, j]),
                int(rival_votes[i, j]), int(votes[i, j]), bool(changed[i, j]),
            )
            for j in range(POINTS)
        ]  # fmt: skip
        proven = [point for point in candidates if point.changed]
        nearest = min(proven, key=lambda point: point.gauge, default=None)
        results.append(Attacked(targets.query.ids[i], int(top[i]), radius, candidates[0], nearest))
    return results


class _Trial:
    """Decides at each look at the votes whether a rival is proven to lead. top, rival: `m`; level: of one look."""

    def __init__(self, top: NDArray[np.int64], rival: NDArray[np.int64], level: float) -> None:
        self.top, self.rival, self.level = top, rival, level
        self.changed = np.zeros(len(top), bool)

    def __call__(self, position: NDArray[Any], look: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Which are decided. position, look: `k`; counts: `k x num_classes`."""
        rows = np.arange(len(position))
        own, rival_votes = counts[rows, self.top[position]], counts[rows, self.rival[position]]
        # One-sided: half of the two-sided value, on the side where the rival leads.
        surprise = np.asarray(binomial_test(rival_votes, np.maximum(own + rival_votes, 1))) / 2
        self.changed[position] = (rival_votes > own) & (surprise <= self.level)
        decided: NDArray[np.bool_] = self.changed[position] | ((own > rival_votes) & (surprise <= HOPELESS))
        return decided
