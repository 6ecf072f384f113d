"""Counts hard votes: many inputs in flight, one fixed batch shape, counts kept on the device.

An input's votes are looked at after given numbers of votes (`looks`), and it may stop at any of them; its place then
goes to the next one. Work is done in rounds: every input in flight is counted up to its next look, with a single wait
for the device per round.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.engine.noise import sent
from anisocert.engine.numerics import ALIGN
from anisocert.engine.query import Query
from anisocert.engine.streams import Stage, Stream
from anisocert.errors import ModelError

SLOT_BYTES = 1 << 30  # device memory for inputs in flight, their scales and their counts
UNSETTLED_BATCHES = 64  # after this many the device is waited for, so that what is kept of them stays small


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


Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # slot, vote and bin of each row
WhoStops = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
OnVotes = Callable[[int], None]
"""Called with the number of votes that each network call counted."""


class DeviceCounts:
    """One counting of votes, with its place on the device."""

    def __init__(self, query: Query, width: int, looks: int) -> None:
        network = query.network
        self.network, self.width, self.looks = network, width, looks
        self.source = query.noise(width, network.grid)
        self.unsettled: list[tuple[Tensor, Batch]] = []  # of each batch since the last wait: which rows
        self.trash = width * looks  # the bin of rows that are padding
        self.counts = torch.zeros(self.trash + 1, network.num_classes, dtype=torch.int32, device=network.device)
        self.nan = torch.zeros((), dtype=torch.bool, device=network.device)

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """Give inputs slots, with all their counts at zero."""
        self.unsettled.clear()  # of a round that broke off
        self.source.open(slots, streams, x, scales)
        self.counts[:-1].view(self.width, self.looks, -1)[torch.tensor(slots, device=self.counts.device)] = 0

    def add(self, slot: np.ndarray, vote: np.ndarray, bin_: np.ndarray) -> None:
        """Count one batch of votes, without waiting for the device."""
        noisy = self.source.noisy(slot, vote)
        bins = sent(bin_, self.counts.device)
        if self.source.unsettled is not None:
            self.unsettled.append((self.source.unsettled, (slot, vote, bin_)))
            bins = bins.masked_fill(self.source.unsettled, self.trash)
        self._count(noisy, bins)
        if len(self.unsettled) == UNSETTLED_BATCHES:
            self._settle()

    def _count(self, noisy: Tensor, bins: Tensor) -> None:
        scores = self.network.scores(noisy)
        best, votes = scores.max(1)  # a NaN counts as the largest
        self.nan |= (best.isnan() & (bins != self.trash)).any()  # padding may be anything
        where = bins * self.network.num_classes + votes
        self.counts.view(-1).scatter_add_(0, where, torch.ones_like(where, dtype=torch.int32))

    def read(self) -> np.ndarray:
        """Counts so far, waiting for the device: `width x looks x num_classes`, cumulative over looks."""
        self._settle()
        counts = self.counts[:-1].view(self.width, self.looks, -1).cpu().numpy()
        if bool(self.nan):
            raise ModelError("expected finite scores, got NaN from the model on a noisy input")
        return counts.cumsum(1, dtype=np.int64)

    def _settle(self) -> None:
        """Count the rows that `add` left out, in batches of the same shape and at the same places of a tile."""
        if not self.unsettled:
            return
        segments = list[Segment]()
        for i, row in torch.stack([rows for rows, _ in self.unsettled]).nonzero().tolist():
            slot, vote, bin_ = (int(named[row]) for named in self.unsettled[i][1])
            segments.append(Segment(slot, bin_, vote, vote + 1))
        for slots, votes, bins in _batches(segments, len(self.unsettled[0][0]), self.trash):
            self._count(self.source.settled(slots, votes), sent(bins, self.counts.device))
        self.unsettled.clear()


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
    rows = network.fit(query.shape, inputs * looks[-1])
    # where each round waits, many batches make the wait small; and a few votes of many inputs leave no padding
    per_round = rows * (40 if network.device.type == "cuda" or stop is None else 1)
    arrays = 1 + len(query.smoothing.weights) + network.told_theta
    slot_bytes = 4 * (arrays * query.x[0].numel() + len(looks) * network.num_classes)
    width = min(inputs, max(1, SLOT_BYTES // slot_bytes), per_round // at_once + 2)
    counting = DeviceCounts(query, width, len(looks))
    waiting, free, flying = deque(range(inputs)), list(range(width)), dict[int, _InFlight]()
    while waiting or flying:
        segments: list[Segment] = []
        for one in flying.values():
            _schedule(one, looks, segments)
        planned = sum(s.stop - s.start for s in segments)
        new = dict[int, int]()
        while waiting and free and planned < per_round:
            one = _InFlight(waiting.popleft(), free.pop(), seen=seen)
            flying[one.slot], new[one.slot] = one, one.position
            while one.scheduled < at_once:
                _schedule(one, looks, segments)
            planned += at_once
        if new:
            positions = list(new.values())
            some = query.part(positions)
            counting.open(list(new), some.streams(stage), some.x, scales[positions])
        spare = -planned % rows
        for one in flying.values():  # rows that would be padding look ahead instead
            while one.look < len(looks) and spare >= looks[one.look] - one.scheduled:
                spare -= looks[one.look] - one.scheduled
                _schedule(one, looks, segments)
        try:
            for slot, vote, bin_ in _batches(segments, rows, counting.trash):
                counting.add(slot, vote, bin_)
                if on_votes is not None:
                    on_votes(int((slot >= 0).sum()))
            counts = counting.read()
        except RuntimeError as error:
            network.shrink(error)  # and count what was in flight again from its start, in the new shape
            waiting.extendleft(sorted((one.position for one in flying.values()), reverse=True))
            free, flying = list(range(width)), {}
            rows = network.fit(query.shape, inputs * looks[-1])
            continue
        while fresh := [one for one in flying.values() if one.seen < one.look]:
            judged = np.array([one.seen for one in fresh])
            stops = judged == len(looks) - 1
            if stop is not None:
                latest = counts[[one.slot for one in fresh], judged]
                stops = stop(np.array([one.position for one in fresh]), judged, latest) | stops
            for one, done in zip(fresh, stops, strict=True):
                one.seen += 1
                if done:
                    del flying[one.slot]
                    free.append(one.slot)
                    yield Tally(one.position, counts[one.slot, : one.seen], looks[one.seen - 1])


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


class Segment(NamedTuple):
    """Votes [start, stop) of the input in a slot, to be counted in one bin."""

    slot: int
    bin: int
    start: int
    stop: int


def _schedule(one: _InFlight, looks: Sequence[int], segments: list[Segment]) -> None:
    """Have this input counted up to its next look."""
    segments.append(Segment(one.slot, one.slot * len(looks) + one.look, one.scheduled, looks[one.look]))
    one.scheduled, one.look = looks[one.look], one.look + 1


def _batches(segments: list[Segment], rows: int, trash: int) -> Iterator[Batch]:
    """Lay segments out in batches of `rows`: slot, vote and bin of each row; padding has slot -1 and the trash bin."""
    slot, vote, bin_ = _empty(rows, trash)
    cursor = 0
    for s, b, start, end in sorted(segments):
        while start < end:
            cursor += (start - cursor) % ALIGN
            if cursor >= rows:
                yield slot, vote, bin_
                slot, vote, bin_ = _empty(rows, trash)
                cursor = start % ALIGN
            take = min(end - start, rows - cursor)
            place = np.s_[cursor : cursor + take]
            slot[place], bin_[place], vote[place] = s, b, np.arange(start, start + take)
            start, cursor = start + take, cursor + take
    if cursor:
        yield slot, vote, bin_


def _empty(rows: int, trash: int) -> Batch:
    return np.full(rows, -1), np.zeros(rows, np.int64), np.full(rows, trash)
