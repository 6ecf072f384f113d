"""What was promised about one input, and the evidence for it."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Final, get_type_hints

import numpy as np
from numpy.typing import NDArray

from anisocert.geometry import Region

ABSTAIN = -1
Count = Annotated[int, "votes"]


@dataclass(frozen=True, eq=False)
class Counting:
    """One counting of votes. A memory identifies it by these values; their order is part of the memory's format."""

    id: int
    prediction: int
    gap: float
    seed: int
    alpha: float
    votes: Count
    top_votes: Count
    runner_up_votes: Count
    bound_k: Count
    bound_n: Count
    bound: str
    stop: str | None
    method: str
    norm: int
    num_classes: int
    model_hash: str = field(repr=False)


@dataclass(frozen=True, eq=False)
class Certificate(Counting):
    """The smoothed classifier answers `prediction` everywhere in `region`, except with probability alpha + grain.

    prediction: the class, or -1 (abstain), with `reason` saying why. gap: r in ||delta / theta|| < r. theta: scale of
    the noise, float32, scalar or of the input's shape. noise: its name in `smoothing.NOISES`. votes, top_votes: of the
    estimate stage. The bounds were computed from bound_k votes for the class and runner_up_votes for the next one among
    the first bound_n votes, which in a sequential plan may be fewer than were counted.
    grain: how far the votes' noise may be from the theory's, in total variation: it is added to alpha wherever the
    probability of an error is stated. 0.0 if it is unknown, because noise was not drawn on a grid.
    model_hash: names the network and its numerics. note: what a memory did (kept, shrunk, inherited, abstained).
    x: the input of an abstention, which a memory needs to know; otherwise it is the region's centre.

    Where a selector chose theta from a codebook: codes, the number of the code; selector_top of selector_votes named it
    under noise of selector_sigma. They prove, but for the part selector_alpha of alpha, that the selector names it
    within cap: no semi-axis of the region is longer.
    """

    noise: str
    region: Region | None = field(repr=False)
    theta: NDArray[np.float32] = field(repr=False)
    p_a: float
    p_b: float
    seconds: float
    note: str = ""
    reason: str = ""
    grain: float = 0.0
    codes: str | None = None
    selector_top: int | None = None
    selector_votes: int | None = None
    selector_alpha: float | None = None
    selector_sigma: float | None = None
    cap: float | None = None
    x: NDArray[np.generic] | None = field(default=None, repr=False)

    @property
    def radius(self) -> float:
        """Radius of the largest norm ball inside the region; 0 when abstaining."""
        return 0.0 if self.region is None else self.region.radius

    @property
    def proxy_radius(self) -> float:
        """Radius of the norm ball of the region's volume; 0 when abstaining."""
        return 0.0 if self.region is None else self.region.proxy_radius


COUNTING: Final = tuple(one.name for one in fields(Counting))
COUNTS: Final = tuple(name for name, kind in get_type_hints(Counting, include_extras=True).items() if kind == Count)
"""The fields that only a counting of votes can fill."""
