"""Where votes are counted, on the device, and how they are laid out in calls of a network.

A call always has the same number of rows. On a GPU the noise of several calls is drawn at once, and their votes are
counted at once: launching that for each would take as long as a short call.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from anisocert.engine.noise import sent
from anisocert.engine.numerics import ALIGN
from anisocert.engine.query import Query
from anisocert.engine.streams import Stream
from anisocert.errors import ModelError

ROWS_AT_ONCE, BYTES_AT_ONCE = 20_000, 1 << 28  # of noisy inputs on a GPU
ALLOCATED = 512  # bytes, of which torch's allocators on GPUs start at a multiple
UNSETTLED_BATCHES = 64  # after this many the device is waited for, so that what is kept of them stays small

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # slot, vote and bin of each row


def calls_at_once(device: torch.device, rows: int, shape: tuple[int, ...]) -> int:
    """How many calls of a network have their noise drawn together."""
    if device.type != "cuda":
        return 1
    return max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE // (4 * math.prod(shape))) // rows)


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
        scores = torch.cat([self.network.scores(_aligned(part)) for part in noisy.split(self._rows)])
        best, votes = scores.max(1)  # a NaN counts as the largest
        self.nan |= (best.isnan() & (bins != self.trash)).any()  # padding may be anything
        where = bins * self.network.num_classes + votes
        self.counts.view(-1).scatter_add_(0, where, torch.ones_like(where, dtype=torch.int32))

    @property
    def _rows(self) -> int:
        """Of a call of the network."""
        assert self.network.numerics.rows is not None
        return self.network.numerics.rows

    def read(self) -> np.ndarray:
        """Counts so far, waiting for the device: `width x looks x num_classes`, cumulative over looks."""
        self._settle()
        counts = self.counts[:-1].view(self.width, self.looks, -1).cpu().numpy()
        if bool(self.nan):
            raise ModelError("expected finite scores, got NaN from the model on a noisy input")
        return counts.cumsum(1, dtype=np.int64)

    def _settle(self) -> None:
        """Count the rows that `add` left out, in calls of the same shape and at the same places of a tile."""
        if not self.unsettled:
            return
        slot, vote, bin_ = (
            np.concatenate(named) for named in zip(*(batch for _, batch in self.unsettled), strict=True)
        )
        left = torch.cat([rows for rows, _ in self.unsettled]).nonzero()[:, 0].cpu().numpy()
        segments = [Segment(int(slot[i]), int(bin_[i]), int(vote[i]), int(vote[i]) + 1) for i in left]
        for slots, votes, bins in batches(segments, self._rows, 1, self.trash):
            self._count(self.source.settled(slots, votes), sent(bins, self.counts.device))
        self.unsettled.clear()


class Segment(NamedTuple):
    """Votes [start, stop) of the input in a slot, to be counted in one bin."""

    slot: int
    bin: int
    start: int
    stop: int


def _aligned(part: Tensor) -> Tensor:
    """A part of a batch where a batch of its own would be: kernels may be chosen by the place of what they read."""
    return part.clone() if part.data_ptr() % ALLOCATED else part


def batches(segments: list[Segment], rows: int, calls: int, trash: int) -> Iterator[Batch]:
    """Lay segments out in batches of `calls` calls, the last one of fewer: slot, vote and bin of each row.

    Padding has slot -1 and the trash bin.
    """
    size = rows * calls
    slot, vote, bin_ = _empty(size, trash)
    cursor = 0
    for s, b, start, end in sorted(segments):
        while start < end:
            cursor += (start - cursor) % ALIGN
            if cursor >= size:
                yield slot, vote, bin_
                slot, vote, bin_ = _empty(size, trash)
                cursor = start % ALIGN
            take = min(end - start, size - cursor)
            place = np.s_[cursor : cursor + take]
            slot[place], bin_[place], vote[place] = s, b, np.arange(start, start + take)
            start, cursor = start + take, cursor + take
    if cursor:
        used = -(-cursor // rows) * rows
        yield slot[:used], vote[:used], bin_[:used]


def _empty(size: int, trash: int) -> Batch:
    return np.full(size, -1), np.zeros(size, np.int64), np.full(size, trash)
