"""What a method decides: whom to ask about each input, under which noise, and which answers are certified."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from anisocert.engine import Query, Tally
from anisocert.engine.votes import WhoStops

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Capture:
    """What votes say about the code of each input; each array has `b` entries.

    codes: the one that other votes named first; top: how many of `votes` named it again. But for alpha, the selector
    names it everywhere within cap, under noise of sigma; 0 where that is not proven, and infinite where a code needs no
    proof.
    """

    codes: Sequence[str]
    top: Counts
    votes: int
    alpha: Floats
    sigma: Floats
    cap: Floats

    def evidence(self, i: int) -> dict[str, Any]:
        """Fields of the certificate of input i."""
        if np.isinf(self.cap[i]):
            return {"codes": self.codes[i]}
        return {
            "codes": self.codes[i], "selector_top": int(self.top[i]), "selector_votes": self.votes,
            "selector_alpha": float(self.alpha[i]), "selector_sigma": float(self.sigma[i]), "cap": float(self.cap[i]),
        }  # fmt: skip

    def reason(self, i: int) -> str:
        """Why input i abstains, where its code is not proven."""
        return f"the selector names no code surely enough: code {self.codes[i]} has {self.top[i]} of {self.votes} votes"


@dataclass(frozen=True, eq=False)
class Event:
    """What is certified about each input: that the network answers `label`. theta: scale of the region, `b x ...`.

    outcomes: `b x m`, where the votes have finer outcomes than classes, those that count for the label; all others
    count against it. Without them an outcome is a class. captured, codes: those in which a selector names one of the
    codes that the event asks for; sigma: of its noise.
    """

    label: Counts
    theta: Tensor
    outcomes: NDArray[np.bool_] | None = None
    captured: NDArray[np.bool_] | None = None
    codes: Sequence[str] = ()
    sigma: float = 0.0

    @property
    def top(self) -> Counts:
        """The certified outcome in the counts of `merged`."""
        return self.label if self.outcomes is None else np.zeros_like(self.label)

    def merged(self, position: Any, counts: Counts) -> Counts:
        """Counts of classes, or of the event and of all else. position: `k`; counts: `k x ... x m`."""
        if self.outcomes is None:
            return counts
        inside = np.where(self.outcomes[position].reshape(*counts.shape[:1], *(1,) * (counts.ndim - 2), -1), counts, 0)
        return np.stack([inside.sum(-1), (counts - inside).sum(-1)], -1)

    def seen(self, tally: Tally) -> Tally:
        """A tally with merged counts."""
        return Tally(tally.position, self.merged([tally.position], tally.history[None])[0], tally.votes)

    def evidence(self, tally: Tally) -> dict[str, Any]:
        """Fields of the certificate of a tallied input, before its counts are merged."""
        if self.captured is None:
            return {}
        top = int(tally.counts[self.captured[tally.position]].sum())
        fields = {"codes": self.codes[tally.position], "selector_sigma": self.sigma}
        return fields | {"selector_top": top, "selector_votes": tally.votes}

    def judged(self, judge: WhoStops) -> WhoStops:
        """A judge that sees merged counts."""
        return lambda position, look, counts: judge(position, look, self.merged(position, counts))


@dataclass(frozen=True, eq=False)
class Choice:
    """Whom to ask about inputs, and how. query: the inputs that are voted on, at `positions` among all.

    scales: of their noise, see `count_votes`. settle: the event to certify, from counts of the votes to select.
    capture: of all inputs, where a selector chose their noise.
    """

    query: Query
    scales: Tensor
    positions: Sequence[int]
    settle: Callable[[Counts], Event]
    capture: Capture | None = None

    @classmethod
    def of(
        cls, query: Query, theta: Tensor, capture: Capture | None = None, kept: Sequence[int] | None = None
    ) -> "Choice":
        """The class that most votes select, under theta; of the inputs that are kept, by default all."""
        kept = range(len(query)) if kept is None else kept
        if len(kept) < len(query):
            query, theta = query.part(kept), theta[kept]
        return cls(query, query.smoothing.scales(theta), kept, lambda counts: Event(counts.argmax(1), theta), capture)
