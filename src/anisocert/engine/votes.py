"""Counts hard votes: many inputs in flight, one fixed shape of network calls, counts kept on the device.

An input's votes are looked at after given numbers of votes (`looks`), and it may stop at any of them; its place then
goes to the next one. Work is done in rounds: every input in flight is counted up to its next look, with a single wait
for the device per round.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from anisocert.engine._counting import DeviceCounts, Segment, batches
from anisocert.engine.noise import span
from anisocert.engine.query import Query
from anisocert.engine.streams import Stage

Counts = NDArray[np.int64]
SLOT_BYTES = 1 << 30  # device memory for inputs in flight, their scales and their counts


@dataclass(frozen=True)
class Tally:
    """The votes of the input at `position`: at each look so far one count per class, and how many in all."""

    position: int
    history: np.ndarray
    votes: int

    @property
    def counts(self) -> np.ndarray:
        """At the last look."""
        latest: np.ndarray = self.history[-1]
        return latest


@dataclass
class _InFlight:
    position: int
    slot: int
    scheduled: int = 0  # votes
    look: int = 0  # looks already scheduled
    seen: int = 0  # looks already judged


def top_and_runner_up(counts: Counts, top: Counts) -> tuple[Counts, Counts]:
    """(votes for class top, most votes for another class), `...`. counts: `... x num_classes`; top: `...`."""
    others = counts.copy()
    np.put_along_axis(others, top[..., None], -1, -1)
    return np.take_along_axis(counts, top[..., None], -1)[..., 0], others.max(-1)


WhoStops = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
OnVotes = Callable[[int], None]
"""Called with the number of votes of each batch."""


def count_votes(
    query: Query,
    scales: Tensor,
    stage: Stage,
    looks: Sequence[int],
    stop: WhoStops | None = None,
    on_votes: OnVotes | None = None,
) -> Iterator[Tally]:
    """Yield a tally per input, as each one stops.

    scales: `b x j x *shape` (or broadcastable to it); looks: increasing numbers of votes. Every input stops at the last
    look at the latest; stop(positions, looks, counts), each with one entry per input, says which stop earlier: without
    it there is no wait before the last look.
    """
    network, inputs = query.network, len(query)
    at_once, seen = (looks[0], 0) if stop is not None else (looks[-1], len(looks) - 1)
    rows = _settled(query, scales, inputs * looks[-1])
    # where each round waits, many batches make the wait small; and a few votes of many inputs leave no padding
    per_round = rows * (40 if network.device.type == "cuda" or stop is None else 1)
    arrays = 1 + len(query.smoothing.weights) + network.told_theta
    slot_bytes = 4 * (arrays * query.x[0].numel() + len(looks) * network.num_classes)
    width = min(inputs, max(1, SLOT_BYTES // slot_bytes), per_round // at_once + 2)
    counting = DeviceCounts(query, width, len(looks))
    waiting, free, flying = deque(range(inputs)), deque(range(width)), dict[int, _InFlight]()
    while waiting or flying:
        segments: list[Segment] = []
        for flight in flying.values():
            _schedule(flight, looks, segments)
        planned = sum(s.stop - s.start for s in segments)
        new = dict[int, int]()
        while waiting and free and planned < per_round:
            flight = _InFlight(waiting.popleft(), free.popleft(), seen=seen)
            flying[flight.slot], new[flight.slot] = flight, flight.position
            while flight.scheduled < at_once:
                _schedule(flight, looks, segments)
            planned += at_once
        if new:
            positions = list(new.values())
            part = query.part(positions)
            counting.open(list(new), part.streams(stage), part.x, scales[span(positions)])
        spare = -planned % rows
        for flight in flying.values():  # rows that would be padding look ahead instead
            while flight.look < len(looks) and spare >= looks[flight.look] - flight.scheduled:
                spare -= looks[flight.look] - flight.scheduled
                _schedule(flight, looks, segments)
        try:
            with network.lent() as counting.places:
                for slot, vote, bin_ in batches(segments, rows, counting.trash):
                    counting.add(slot, vote, bin_)
                    if on_votes is not None:
                        on_votes(int((slot >= 0).sum()))
                counts = counting.read()
        except RuntimeError as error:
            counting.places = ()
            network.shrink(error)  # and count what was in flight again from its start, in the new shape
            waiting.extendleft(sorted((flight.position for flight in flying.values()), reverse=True))
            free, flying = deque(range(width)), {}
            rows = _settled(query, scales, inputs * looks[-1])
            continue
        while fresh := [flight for flight in flying.values() if flight.seen < flight.look]:
            judged = np.array([flight.seen for flight in fresh])
            stops = judged == len(looks) - 1
            if stop is not None:
                latest = counts[[flight.slot for flight in fresh], judged]
                stops = stop(np.array([flight.position for flight in fresh]), judged, latest) | stops
            for flight, done in zip(fresh, stops, strict=True):
                flight.seen += 1
                if done:
                    del flying[flight.slot]
                    free.append(flight.slot)
                    yield Tally(flight.position, counts[flight.slot, : flight.seen], looks[flight.seen - 1])


def _settled(query: Query, scales: Tensor, votes: int) -> int:
    """Rows per call of a network that is fitted, and tried on inputs such as these."""
    while True:
        rows = query.network.fit(query.shape, votes)
        try:
            query.network.try_on(query.x, scales, query.smoothing.base)
        except RuntimeError as error:
            query.network.shrink(error)
            continue
        return rows


def all_votes(
    query: Query,
    scales: Tensor,
    stage: Stage,
    looks: Sequence[int],
    stop: WhoStops | None = None,
    on_votes: OnVotes | None = None,
) -> NDArray[np.int64]:
    """The counts of each input when it stops: `b x num_classes`."""
    counts = np.zeros((len(query), query.network.num_classes), np.int64)
    for tally in count_votes(query, scales, stage, looks, stop, on_votes):
        counts[tally.position] = tally.counts
    return counts


def _schedule(flight: _InFlight, looks: Sequence[int], segments: list[Segment]) -> None:
    """Have this input counted up to its next look."""
    segments.append(Segment(flight.slot, flight.slot * len(looks) + flight.look, flight.scheduled, looks[flight.look]))
    flight.scheduled, flight.look = looks[flight.look], flight.look + 1
