"""Noisy copies of inputs, one row per vote: x + scale * eps, drawn and added in float32.

A vote's noise is a function of its stream (seed, stage, example id) and its number alone. Inputs in flight wait in
slots; a row of a batch names its slot and its vote. The CPU (and any device without a kernel of its own) draws by
numpy's Philox, CUDA by the Triton kernel in `noise_cuda`.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from anisocert.engine.streams import Stream

Base = Literal["normal", "uniform"]


class NoiseSource(Protocol):
    """Draws noisy rows for the inputs in its slots."""

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """Put inputs into slots, before their first votes.

        slots, streams: `b`; x: `b x *shape`; scales: `b x j x *shape` (or broadcastable to it), one per component.
        """

    def noisy(self, slot: np.ndarray, vote: np.ndarray) -> Tensor:
        """One noisy copy a row: `rows x *shape`. slot, vote: `rows`; slot -1 is padding."""


def noise_source(
    device: torch.device, base: Base, weights: Sequence[float], slots: int, shape: tuple[int, ...]
) -> NoiseSource:
    """The noise source for a device."""
    if device.type == "cuda":
        from anisocert.engine.noise_cuda import CudaNoise  # Triton exists only beside CUDA builds

        return CudaNoise(device, base, weights, slots, shape)
    return HostNoise(device, base, weights, slots, shape)


class HostNoise:
    """Noise from numpy generators, one per slot; the votes of a slot are drawn in order."""

    def __init__(
        self, device: torch.device, base: Base, weights: Sequence[float], slots: int, shape: tuple[int, ...]
    ) -> None:
        self.device, self.base, self.shape = device, base, shape
        self.cumulative = np.cumsum(weights)[:-1]
        self.slots: list[_Slot | None] = [None] * slots

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """See NoiseSource."""
        inputs = zip(x.flatten(1).cpu(), scales.flatten(2).cpu(), strict=True)
        for slot, stream, one in zip(slots, streams, inputs, strict=True):
            self.slots[slot] = _Slot(stream, *one)

    def noisy(self, slot: np.ndarray, vote: np.ndarray) -> Tensor:
        """See NoiseSource."""
        out = torch.zeros(len(slot), int(np.prod(self.shape)))
        for start, stop in _runs(slot):
            state = self.slots[slot[start]]
            assert state is not None, "a slot is opened before its votes are drawn"
            assert state.drawn == vote[start], "the votes of an example are drawn in order"
            state.drawn += stop - start
            rows = out[start:stop]
            eps = rows.numpy()
            if self.base == "normal":
                state.values.standard_normal(out=eps, dtype=np.float32)
            else:
                state.values.random(out=eps, dtype=np.float32)
                rows.mul_(2).sub_(1)
            if len(self.cumulative) == 0:
                scale = state.scales
            else:
                u = state.components.random(stop - start)
                scale = state.scales[torch.from_numpy(np.searchsorted(self.cumulative, u, side="right"))]
            torch.addcmul(state.x, rows, scale, out=rows)
        return out.view(len(slot), *self.shape).to(self.device)


class _Slot:
    """One input in flight and how far its stream has been read."""

    def __init__(self, stream: Stream, x: Tensor, scales: Tensor) -> None:
        self.x, self.scales, self.drawn = x, scales, 0
        self.values, self.components = stream.generator(lane=0), stream.generator(lane=1)


def _runs(slot: np.ndarray) -> Iterator[tuple[int, int]]:
    """The stretches [start, stop) of equal slot, padding (-1) left out."""
    edges = np.flatnonzero(np.diff(slot)) + 1
    for start, stop in zip([0, *edges], [*edges, len(slot)], strict=True):
        if slot[start] >= 0:
            yield int(start), int(stop)
