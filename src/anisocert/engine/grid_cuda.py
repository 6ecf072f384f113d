"""The CUDA noise source on a grid: 64 bits per coordinate, and its multiple of the step as `grid` defines it.

Three arithmetics, each of which hands on what it cannot settle. A first kernel computes in float32, from the upper 32
bits, and lists the coordinates of each row that lie too near a border (1 % at sigma = 0.25, 3 % at 2). A second one
settles those in float64; where noise is uniform, or so wide that they would be many, it computes all, with no first. A
coordinate that float64 cannot settle either is NaN, and its row is marked: before that is counted the host draws the
coordinate in exact arithmetic, from the same words and, where these do not decide, further ones.

Philox4x32 is keyed by the seed; its counter is (quad of elements, vote, id, stage), so any vote can be drawn at any
place of any batch, and streams are disjoint by construction. The four words at a quad are its elements' upper halves;
the lower ones, which few need, are at LOWER beyond.

The float32 error, in steps: the upper half of a word and its rounding move U by a relative 3 2^-24 where U >= 2^-9, and
so eps by less than 2^-22 (smaller U are handed on); float32's normcdfinv was compared with float64's at every float32
from 2^-9 to 1/2. Together they stay below 2^-21 (1 + |eps|). Product and sum add 2^-24 of theirs: QUICK allows 1.6
times all of it, QUICK_X four times. The upper half alone leaves an interval of 2^-32 for U, in whose middle it is
computed: the whole word's, of 2^-64, lies inside it, and the error covers both.

In float64 the interval of a word reaches 2^-65 to either side of its tail t, and eps moves by less than 2^-65 / phi at
its outer end, t' = t - 2^-65. As phi(z) / Phi(z) >= sqrt(2/pi) for z <= 0, and t' >= t (1 - 2^-7) where t >= 2^-58,
that is less than 1.5 2^-65 / t; words nearer to 0 or 1 are handed on. (Uniform noise moves by 2^-64, which MARGIN
allows.)
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor
from triton.language.extra import libdevice

from anisocert.engine.grid import MARGIN, MARGIN_X, REACH, Base, check_range, multiples, thresholds
from anisocert.engine.noise import sent
from anisocert.engine.noise_cuda import SlotsOnDevice, key_of
from anisocert.engine.streams import Stream, philox

LOWER = 1 << 31  # added to the counter of a quad, which is below 2^30
COMPONENT = 0xFFFFFFFF  # the counter of a mixture's component, which no element reaches
QUICK, QUICK_X = 2.0**-20, 2.0**-22
MOST_LISTED = 0.2  # share of coordinates up to which float32 comes first
ROOM = 256  # coordinates of a row that its list has room for, or half of them all


class CudaGridNoise(SlotsOnDevice):
    """Draws noisy rows on the GPU, each number a multiple of the grid's step."""

    def __init__(
        self,
        device: torch.device,
        base: Base,
        weights: Sequence[float],
        slots: int,
        shape: tuple[int, ...],
        grid: float,
    ) -> None:
        super().__init__(device, base, len(weights), slots, shape)
        self.grid, self.thresholds = grid, thresholds(weights)
        self._thresholds = torch.from_numpy(self.thresholds).to(device)
        self._listed = 0.0  # share of the coordinates that float32 is expected to hand on
        self._list = torch.empty(0, 0, dtype=torch.int32, device=device)
        self._opened = dict[int, Stream]()
        self._aside = torch.cuda.Stream(device)

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """See NoiseSource."""
        wide = scales.max(), scales.flatten(2).mean(2).max()
        sizes = torch.stack([torch.linalg.vector_norm(x, torch.inf), *(size.to(x) for size in wide)])
        largest, widest, usual = sizes.tolist()  # one wait for the device
        check_range(largest + REACH[self.base] * widest, self.grid)
        self._listed = max(self._listed, 2 * (2 * usual * QUICK + largest * QUICK_X) / self.grid + 2.0**-8)
        super().open(slots, streams, x, scales)
        self._opened.update(zip(slots, streams, strict=True))

    def _draw(self, out: Tensor, rows: Tensor) -> None:
        n, quads = len(out), triton.cdiv(self.d, 4)
        self.unsettled = torch.zeros(n, dtype=torch.bool, device=self.device)
        arguments = (
            self.x, self.scales, self.streams, self._thresholds, rows[0], rows[1], self.d, quads, self.components,
            1.0 / self.grid, self.grid,
        )  # fmt: skip
        width = min(128, triton.next_power_of_2(quads))
        blocks = (n, triton.cdiv(quads, width))
        if self.base == "uniform" or self._listed > MOST_LISTED:
            _settle[blocks](
                out, self.unsettled.view(torch.int8), out, out, 0, *arguments, MARGIN, MARGIN_X,
                UNIFORM=self.base == "uniform", LISTED=False, WIDTH=width,
            )  # fmt: skip
            return
        room = max(ROOM, triton.cdiv(self.d, 2))
        if len(self._list) < n:
            self._list = torch.empty(n, room, dtype=torch.int32, device=self.device)
        counts = torch.zeros(n, dtype=torch.int32, device=self.device)
        _nearly[blocks](out, counts, self._list, room, *arguments, QUICK, QUICK_X, WIDTH=width, num_warps=2)
        _settle[(n, 1)](
            out, self.unsettled.view(torch.int8), counts, self._list, room, *arguments, MARGIN, MARGIN_X,
            UNIFORM=False, LISTED=True, WIDTH=64, num_warps=1,
        )  # fmt: skip

    def settle(self, noisy: Tensor, rows: np.ndarray, slot: np.ndarray, vote: np.ndarray) -> None:
        """See NoiseSource."""
        for row in rows.tolist():
            values = noisy[row].view(-1)
            with torch.cuda.stream(self._aside):  # the row has been drawn: no wait for calls since
                elements = values.isnan().nonzero()[:, 0].cpu().numpy()
            exact = self._exactly(int(slot[row]), int(vote[row]), elements)
            values[sent(elements, self.device)] = sent(exact, self.device)

    def _exactly(self, slot: int, vote: int, elements: NDArray[np.int64]) -> NDArray[np.float32]:
        """Some numbers of one vote, in exact arithmetic where that is needed: as many as elements."""
        with torch.cuda.stream(self._aside):
            x, scales = (values[slot][..., elements].double().cpu().numpy() for values in (self.x, self.scales))
        first, second, _, _ = self._drawn(slot, vote, np.array([COMPONENT]))
        component = np.searchsorted(self.thresholds, _words(first, second), side="right")
        which, quads = np.divmod(elements, -(-self.d // 4))
        halves = (np.stack(self._drawn(slot, vote, quads + beyond)) for beyond in (0, LOWER))
        words = _words(*(half[which, np.arange(len(which))] for half in halves))
        further = partial(self._opened[slot].further, vote)
        k = multiples(
            words[None], x, scales[component[0]], self.grid, self.base, lambda _, i: further(int(elements[i]))
        )  # fmt: skip
        exact: NDArray[np.float32] = (k[0] * self.grid).astype(np.float32)
        return exact

    def _drawn(self, slot: int, vote: int, counter: np.ndarray) -> list[np.ndarray]:
        """The four words of 32 bits at each of these counters."""
        seed, low, high = key_of(self._opened[slot])
        return philox(seed, counter, *(np.full(len(counter), word & 0xFFFFFFFF) for word in (vote, low, high)))


def _words(upper: np.ndarray, lower: np.ndarray) -> NDArray[np.int64]:
    words: NDArray[np.int64] = (upper << np.uint64(32) | lower).view(np.int64)
    return words


@triton.jit
def _row(streams, thresholds, slots, votes, row, components):  # type: ignore[no-untyped-def]
    """A row's slot (-1: padding), vote and stream, and the component that its vote has drawn."""
    slot = tl.load(slots + row)
    vote = tl.load(votes + row).to(tl.uint32)
    place = streams + tl.maximum(slot, 0).to(tl.int64) * 3
    seed = tl.load(place)
    low = tl.load(place + 1).to(tl.uint32)
    high = tl.load(place + 2).to(tl.uint32)
    component = 0
    if components > 1:
        last = tl.zeros([1], tl.uint32) + 0xFFFFFFFF
        b0, b1, _, _ = tl.philox(seed, last, last * 0 + vote, last * 0 + low, last * 0 + high)
        drawn = (b0.to(tl.int64) << 32) | b1.to(tl.int64)
        for j in range(components - 1):
            component += tl.sum((drawn >= tl.load(thresholds + j)).to(tl.int32), 0)
    return slot, vote, seed, low, high, component


@triton.jit
def _of(j, b0, b1, b2, b3):  # type: ignore[no-untyped-def]
    return tl.where(j == 0, b0, tl.where(j == 1, b1, tl.where(j == 2, b2, b3)))


@triton.jit
def _nearly(  # type: ignore[no-untyped-def]
    out, counts, listed, room, x, scales, streams, thresholds, slots, votes, d, quads, components,
    steps, grid, margin, margin_x, WIDTH: tl.constexpr,
):  # fmt: skip
    """Multiples in float32, of normal noise, and a list of those that it cannot settle, which are NaN."""
    row = tl.program_id(0)
    slot, vote, seed, low, high, component = _row(streams, thresholds, slots, votes, row, components)
    padding = slot < 0
    slot = tl.maximum(slot, 0).to(tl.int64)
    quad = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    zero = tl.zeros([WIDTH], tl.uint32)
    b0, b1, b2, b3 = tl.philox(seed, quad.to(tl.uint32), zero + vote, zero + low, zero + high)
    base_x, base_s, base_o = x + slot * d, scales + (slot * components + component) * d, out + row.to(tl.int64) * d
    for j in tl.static_range(4):  # element = quad + j * quads: every access of a warp is contiguous
        bits = (b0 if j == 0 else (b1 if j == 1 else (b2 if j == 2 else b3))).to(tl.int32, bitcast=True)
        tail = ((bits ^ (bits >> 31)).to(tl.float32) + 0.5) * 2.3283064365386963e-10  # 2^-32
        near = tl.maximum(tail, 0.001953125)  # 2^-9
        eps = libdevice.normcdfinv(near)
        element = quad + j * quads
        live = (quad < quads) & (element < d)
        centre = tl.load(base_x + element, mask=live, other=0.0) * steps
        scale = tl.where(padding, 0.0, tl.load(base_s + element, mask=live, other=0.0) * steps)
        place = centre + scale * tl.where(bits < 0, -eps, eps)
        k = libdevice.rint(place)
        # eps <= 0; the constant covers numbers that float32 cannot divide by the step exactly
        doubt = scale * (1 - eps) * margin + tl.abs(centre) * margin_x + 1e-6
        doubtful = live & (padding == 0) & ((tail < near) | (tl.abs(place - k) > 0.5 - doubt))
        at = tl.atomic_add(counts + row + zero.to(tl.int32), 1, mask=doubtful)
        tl.store(listed + row.to(tl.int64) * room + at, element, mask=doubtful & (at < room))
        value = tl.where(doubtful, float("nan"), k * grid + 0.0)  # -0.0 becomes 0.0: a network may tell them apart
        tl.store(base_o + element, value, mask=live)


@triton.jit
def _settle(  # type: ignore[no-untyped-def]
    out, unsettled, counts, listed, room, x, scales, streams, thresholds, slots, votes, d, quads, components,
    steps, grid, margin, margin_x,  # powers of two: the float32 that Triton passes holds them
    UNIFORM: tl.constexpr, LISTED: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Multiples in float64 of a row's listed elements, or of all; one that is not settled is NaN and marks the row."""
    row = tl.program_id(0)
    slot, vote, seed, low, high, component = _row(streams, thresholds, slots, votes, row, components)
    padding = slot < 0
    slot = tl.maximum(slot, 0).to(tl.int64)
    zero = tl.zeros([WIDTH], tl.uint32)
    base_x, base_s, base_o = x + slot * d, scales + (slot * components + component) * d, out + row.to(tl.int64) * d
    doubt = tl.zeros([WIDTH], tl.int32)
    count = tl.load(counts + row) if LISTED else 1
    for start in range(0, tl.minimum(count, room) if LISTED else 1, WIDTH):
        at = start + tl.arange(0, WIDTH)
        if LISTED:
            first = tl.load(listed + row.to(tl.int64) * room + at, mask=at < tl.minimum(count, room), other=d)
            quad = first % quads
        else:
            quad = tl.program_id(1) * WIDTH + at
            first = quad
        counter = quad.to(tl.uint32)
        u0, u1, u2, u3 = tl.philox(seed, counter, zero + vote, zero + low, zero + high)
        l0, l1, l2, l3 = tl.philox(seed, counter + 0x80000000, zero + vote, zero + low, zero + high)  # LOWER
        for j in tl.static_range(1 if LISTED else 4):
            element = first + j * quads
            live = (element < d) & (quad < quads)
            which = element // quads
            word = (_of(which, u0, u1, u2, u3).to(tl.int64) << 32) | _of(which, l0, l1, l2, l3).to(tl.int64)
            tail = ((word ^ (word >> 63)).to(tl.float64) + 0.5) * 5.421010862427522e-20  # 2^-64
            eps = 2 * tail - 1 if UNIFORM else libdevice.normcdfinv(tail)
            centre = tl.load(base_x + element, mask=live, other=0.0).to(tl.float64) * steps
            scale = tl.load(base_s + element, mask=live, other=0.0).to(tl.float64) * steps
            scale = tl.where(padding, 0.0, scale)
            place = centre + scale * tl.where(word < 0, -eps, eps)
            k = libdevice.rint(place)
            near = scale * (1 - eps) * margin + tl.abs(centre) * margin_x  # eps <= 0
            free = (0.5 - near - tl.abs(place - k)) * tail  # the word's reach is divided by tail
            sure = (free > scale * 4.0657581468206416e-20) & (tail >= 3.469446951953614e-18)  # 1.5 2^-65 and 2^-58
            doubt |= tl.where(sure, 0, live.to(tl.int32))
            value = tl.where(sure | padding, k * grid + 0.0, float("nan"))
            tl.store(base_o + element, value.to(tl.float32), mask=live)
    doubtful = (tl.max(doubt, 0) > 0) & (padding == 0)
    if LISTED:
        doubtful = doubtful | (count > room)
    tl.store(unsettled + row, 1, mask=doubtful)
