"""The CUDA noise source in plain float32: one Triton kernel draws, scales and adds, and writes each noisy value once.

Philox4x32 is keyed by the seed; its counter is (quad of the element, vote, id, stage), so any vote can be drawn at any
place of any batch, and streams are disjoint by construction.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from anisocert.engine.grid import Base
from anisocert.engine.noise import sent, span
from anisocert.engine.streams import Stream


class SlotsOnDevice(ABC):
    """Inputs in flight on the GPU, and what draws their noise."""

    unsettled: Tensor | None = None

    def __init__(self, device: torch.device, base: Base, components: int, slots: int, shape: tuple[int, ...]) -> None:
        self.device, self.base, self.components, self.shape = device, base, components, shape
        self.d = int(np.prod(shape))
        self.x = torch.zeros(slots, self.d, dtype=torch.float32, device=device)
        self.scales = self.x.new_zeros(slots, components, self.d)
        self.streams = torch.zeros(slots, 3, dtype=torch.int64, device=device)  # see `key_of`

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """See NoiseSource."""
        places = span(slots)
        self.x[places] = x.flatten(1).to(self.device)
        self.scales[places] = scales.flatten(2).to(self.device)
        self.streams[places] = torch.tensor([key_of(stream) for stream in streams], device=self.device)

    def noisy(self, slot: np.ndarray, vote: np.ndarray, place: Tensor | None = None) -> Tensor:
        """See NoiseSource."""
        return self.noisy_rows(sent(np.stack([slot, vote]).astype(np.int32), self.device), place)

    def noisy_rows(self, rows: Tensor, place: Tensor | None = None) -> Tensor:
        """As `noisy`, with slot and vote already on the device. rows: `2 x n`, int32."""
        out = self.x.new_empty(rows.shape[1], self.d) if place is None else place.view(-1, self.d)
        assert len(out) == rows.shape[1], "a place has the rows of the batch"
        with torch.cuda.device(self.device):
            self._draw(out, rows)
        return out.view(-1, *self.shape)

    @abstractmethod
    def _draw(self, out: Tensor, rows: Tensor) -> None:
        """Fill `n x d` with noisy copies."""


class CudaNoise(SlotsOnDevice):
    """Draws noisy rows on the GPU in plain float32."""

    def __init__(
        self, device: torch.device, base: Base, weights: Sequence[float], slots: int, shape: tuple[int, ...]
    ) -> None:
        super().__init__(device, base, len(weights), slots, shape)
        self.cumulative = torch.tensor(np.cumsum(weights)[:-1], dtype=torch.float32, device=device)

    def _draw(self, out: Tensor, rows: Tensor) -> None:
        quads = triton.cdiv(self.d, 4)
        width = min(1024, triton.next_power_of_2(quads))
        _noisy[(len(out), triton.cdiv(quads, width))](
            out, self.x, self.scales, self.streams, self.cumulative, rows[0], rows[1],
            self.d, quads, self.components, UNIFORM=self.base == "uniform", WIDTH=width,
        )  # fmt: skip

    def settle(self, noisy: Tensor, rows: np.ndarray, slot: np.ndarray, vote: np.ndarray) -> None:
        """See NoiseSource: there are none."""


def key_of(stream: Stream) -> list[int]:
    """A stream in the kernels' words: seed, low id, high id and stage."""
    seed = stream.seed - 2**64 if stream.seed >= 2**63 else stream.seed
    return [seed, stream.id & 0xFFFFFFFF, (stream.id >> 32) << 4 | stream.stage]


@triton.jit
def _unit(bits):  # type: ignore[no-untyped-def]
    """(bits + 1/2) / 2^32, in (0, 1]: never 0, so that its logarithm is finite (largest normal 6.76)."""
    return (bits.to(tl.uint32).to(tl.float32) + 0.5) * 2.3283064365386963e-10


@triton.jit
def _noisy(  # type: ignore[no-untyped-def]
    out, x, scales, streams, cumulative, slots, votes, d, quads, components, UNIFORM: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0)
    slot = tl.load(slots + row)
    vote = tl.load(votes + row)
    padding = slot < 0
    slot = tl.maximum(slot, 0).to(tl.int64)
    seed = tl.load(streams + slot * 3)
    low = tl.load(streams + slot * 3 + 1).to(tl.uint32)
    high = tl.load(streams + slot * 3 + 2).to(tl.uint32)

    # A mixture's component: one uniform draw per vote, from a counter that no element reaches.
    component = 0
    if components > 1:
        last = tl.zeros([1], tl.uint32) + 0xFFFFFFFF
        bits, _, _, _ = tl.philox(
            seed, last, tl.zeros([1], tl.uint32) + vote.to(tl.uint32), last * 0 + low, last * 0 + high
        )
        u = tl.sum(_unit(bits), 0)
        for j in range(components - 1):
            component += (u >= tl.load(cumulative + j)).to(tl.int32)

    quad = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    zero = tl.zeros([WIDTH], tl.uint32)
    b0, b1, b2, b3 = tl.philox(seed, quad.to(tl.uint32), zero + vote.to(tl.uint32), zero + low, zero + high)
    if UNIFORM:
        e0, e1, e2, e3 = _unit(b0) * 2 - 1, _unit(b1) * 2 - 1, _unit(b2) * 2 - 1, _unit(b3) * 2 - 1
    else:
        r0, r1 = tl.sqrt(-2.0 * tl.log(_unit(b0))), tl.sqrt(-2.0 * tl.log(_unit(b2)))
        a0, a1 = 2 * _unit(b1), 2 * _unit(b3)
        e0, e1 = r0 * libdevice.cospi(a0), r0 * libdevice.sinpi(a0)
        e2, e3 = r1 * libdevice.cospi(a1), r1 * libdevice.sinpi(a1)
    base_x, base_s, base_o = x + slot * d, scales + (slot * components + component) * d, out + row.to(tl.int64) * d
    for j in tl.static_range(4):  # element = quad + j * quads: every access of a warp is contiguous
        eps = e0 if j == 0 else (e1 if j == 1 else (e2 if j == 2 else e3))
        element = quad + j * quads
        live = (quad < quads) & (element < d)
        value = tl.load(base_x + element, mask=live) + tl.load(base_s + element, mask=live) * tl.where(
            padding, 0.0, eps
        )
        tl.store(base_o + element, value, mask=live)
