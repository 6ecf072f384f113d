"""Where votes are counted, on the device, and how they are laid out in calls of a network.

A call always has the same number of rows. On a GPU the next call's noise is drawn before a call is made: while the
network is at work the host learns which rows the device could not settle, and settles them, so that no call waits for
that and none is made for them alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from anisocert.engine.noise import Coming, sent, span
from anisocert.engine.numerics import ALIGN
from anisocert.engine.query import Query
from anisocert.engine.streams import Stream
from anisocert.errors import ModelError

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # slot, vote and bin of each row


@dataclass
class _Drawn:
    """A batch whose noise is drawn, or is about to be. unsettled: which rows are not, on their way to the host."""

    noisy: Tensor
    bins: Tensor
    slot: np.ndarray
    vote: np.ndarray
    unsettled: Coming


class DeviceCounts:
    """Counts votes on the device, one bin per slot and look, for a round at a time.

    places: where noise may be drawn, in turn (see `Network.lent`); none: anywhere.
    """

    def __init__(self, query: Query, width: int, looks: int) -> None:
        network = query.network
        self.network, self.width, self.looks = network, width, looks
        self.source = query.noise(width, network.grid)
        self.places: Sequence[Tensor] = ()
        self._takes = (2, *query.shape) if network.told_theta else query.shape
        self.trash = width * looks  # the bin of rows that are padding
        self.counts = torch.zeros(self.trash + 1, network.num_classes, dtype=torch.int32, device=network.device)
        self.nan = torch.zeros((), dtype=torch.bool, device=network.device)
        self._drawn: _Drawn | None = None
        self._turn = 0

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """Give inputs slots, with all their counts at zero."""
        self._drawn = None  # of a round that broke off
        self.source.open(slots, streams, x, scales)
        self.counts[:-1].view(self.width, self.looks, -1)[span(slots)] = 0

    def add(self, slot: np.ndarray, vote: np.ndarray, bin_: np.ndarray) -> None:
        """Count one batch of votes, at the latest when counts are read."""
        noisy = self.source.noisy(slot, vote, self._place(len(slot)))
        bins = sent(bin_, self.counts.device)
        if self.source.unsettled is None:
            self._count(noisy, bins)
            return
        drawn = _Drawn(noisy, bins, slot, vote, Coming(self.source.unsettled))
        self._count_drawn()
        self._drawn = drawn

    def _place(self, rows: int) -> Tensor | None:
        """Where to draw next, unless the network has been fitted to other batches since this count began."""
        self._turn += 1
        place = self.places[self._turn % len(self.places)] if self.places else None
        return place if place is not None and tuple(place.shape) == (rows, *self._takes) else None

    def _count_drawn(self) -> None:
        """Count the batch that was drawn before, with the rows that the device could not settle settled by the host."""
        if self._drawn is None:
            return
        drawn, self._drawn = self._drawn, None
        rows = np.flatnonzero(drawn.unsettled.arrived())
        if len(rows):
            self.source.settle(drawn.noisy, rows, drawn.slot, drawn.vote)
        self._count(drawn.noisy, drawn.bins)

    def _count(self, noisy: Tensor, bins: Tensor) -> None:
        best, votes = self.network.scores(noisy).max(1)  # a NaN counts as the largest
        self.nan |= (best.isnan() & (bins != self.trash)).any()  # padding may be anything
        where = bins * self.network.num_classes + votes
        self.counts.view(-1).scatter_add_(0, where, torch.ones_like(where, dtype=torch.int32))

    def read(self) -> np.ndarray:
        """Counts so far, waiting for the device: `width x looks x num_classes`, cumulative over looks."""
        self._count_drawn()
        counts = self.counts[:-1].view(self.width, self.looks, -1).cpu().numpy()
        if bool(self.nan):
            raise ModelError(
                "expected finite scores, got NaN from the model on a noisy input: does it divide by something that can "
                "be 0, or take a root or logarithm of it?"
            )
        return counts.cumsum(1, dtype=np.int64)


class Segment(NamedTuple):
    """Votes [start, stop) of the input in a slot, to be counted in one bin."""

    slot: int
    bin: int
    start: int
    stop: int


def batches(segments: list[Segment], rows: int, trash: int) -> Iterator[Batch]:
    """Lay segments out in calls: slot, vote and bin of each row. Padding has slot -1 and the trash bin."""
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
