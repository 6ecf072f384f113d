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
    """The smoothed classifier answers `prediction` everywhere in `region`, except with probability alpha.

    Where theta was chosen for the input, that classifier is the one with this input's noise.

    Args:
        id: of the input; with the seed it names the noise that was drawn.
        prediction: the class, or -1 (abstain), with `reason` saying why.
        gap: r in ||delta / theta|| < r.
        seed: of the noise.
        alpha: probability with which the certificate may be wrong.
        votes: how many were counted in the estimate stage.
        top_votes: how many of them were for the class.
        runner_up_votes: votes for the next class, among the first bound_n.
        bound_k: votes for the class, among the first bound_n.
        bound_n: votes from which the bounds were computed; in a sequential plan they may be fewer than were counted.
        bound: the name of the plan's bound.
        stop: how the plan stops, or None.
        method: the name of the method that chose theta.
        norm: of the region, 1 or 2.
        num_classes: of the network.
        model_hash: names the network and its numerics.
        noise: its name in `smoothing.NOISES`.
        region: where the answer holds; None when abstaining.
        theta: scale of the noise, float32, scalar or of the input's shape.
        p_a: lower bound of the class's share of all votes that could be drawn.
        p_b: upper bound of any other class's share.
        seconds: time taken, the search for theta included.
        note: what a memory did (kept, shrunk, inherited, abstained); empty without one.
        reason: why there is no answer, or what was inherited.
        x: the input of an abstention, which a memory needs to know; otherwise it is the region's centre.
        codes: the codes of a codebook that theta stands for, where a selector chose it.
        selector_top: votes of the selector that named them.
        selector_votes: votes that it cast.
        selector_alpha: the part of alpha with which these votes may mislead.
        selector_sigma: scale of the noise that the selector saw.
        cap: radius within which, by these votes, the selector names the same codes: no semi-axis is longer.
    """

    noise: str
    region: Region | None
    theta: NDArray[np.float32] = field(repr=False)
    p_a: float
    p_b: float
    seconds: float
    note: str = ""
    reason: str = ""
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


COUNTING: Final = tuple(f.name for f in fields(Counting))
COUNTS: Final = tuple(name for name, kind in get_type_hints(Counting, include_extras=True).items() if kind == Count)
"""The fields that only a counting of votes can fill."""
