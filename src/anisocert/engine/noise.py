"""Noisy copies of inputs, one row per vote: x + scale * eps, on a grid and exactly distributed, or in plain float32.

A vote's noise is a function of its stream (seed, stage, example id) and its number alone. Inputs in flight wait in
slots; a row of a batch names its slot and its vote. The CPU (and any device without a kernel of its own) draws by
numpy's Philox, CUDA by the Triton kernels in `grid_cuda` and `noise_cuda`.

Plain float32 noise is not quite the distribution of the theory: it is for searches, which certify nothing, and for runs
that were made with it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from anisocert.engine.grid import REACH, Base, check_range, multiples, thresholds
from anisocert.engine.streams import Stream

CHUNK = 1 << 16  # numbers that are drawn on a grid at a time: they stay in a CPU's cache


class NoiseSource(Protocol):
    """Draws noisy rows for the inputs in its slots."""

    @property
    def unsettled(self) -> Tensor | None:
        """Which rows of the last batch must not be counted as they are, `rows`, on the device; None where none can.

        A number of theirs lies too near a border of the grid for the device's arithmetic.
        """

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """Put inputs into slots, before their first votes.

        slots, streams: `b`; x: `b x *shape`; scales: `b x j x *shape` (or broadcastable to it), one per component.
        """

    def noisy(self, slot: np.ndarray, vote: np.ndarray, place: Tensor | None = None) -> Tensor:
        """One noisy copy per row: `rows x *shape`. slot, vote: `rows`; slot -1 is padding.

        place: memory that they may be written to.
        """

    def settle(self, noisy: Tensor, rows: np.ndarray, slot: np.ndarray, vote: np.ndarray) -> None:
        """Settle those rows of a batch that were not, where they are, without waiting for calls of the network."""


def sent(values: np.ndarray, device: torch.device) -> Tensor:
    """Values on a device, without waiting for it: CUDA waits where memory is not pinned."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Coming:
    """Values on their way from a device, which goes on meanwhile."""

    def __init__(self, values: Tensor) -> None:
        self._values, self._event = values, None
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.current_stream(values.device).record_event()

    def arrived(self) -> np.ndarray:
        """The values, once the device has come to where they were sent."""
        if self._event is not None:
            self._event.synchronize()
        values: np.ndarray = self._values.numpy()
        return values


def span(numbers: Sequence[int]) -> slice | list[int]:
    """Positions as a slice where they follow one another: a device need not be sent them."""
    places = [int(number) for number in numbers]
    first = places[0] if places else 0
    in_turn = first >= 0 and places == list(range(first, first + len(places)))
    return slice(first, first + len(places)) if in_turn else places


def noise_source(
    device: torch.device, base: Base, weights: Sequence[float], slots: int, shape: tuple[int, ...], grid: float = 0.0
) -> NoiseSource:
    """The noise source for a device. grid: the step of the grid; 0 for plain float32."""
    if device.type == "cuda":
        if grid:
            from anisocert.engine.grid_cuda import CudaGridNoise

            return CudaGridNoise(device, base, weights, slots, shape, grid)
        from anisocert.engine.noise_cuda import CudaNoise  # Triton exists only beside CUDA builds

        return CudaNoise(device, base, weights, slots, shape)
    return HostNoise(device, base, weights, slots, shape, grid)


class HostNoise:
    """Noise from numpy generators, one per slot; the votes of a slot are drawn in order, and all are settled."""

    unsettled: Tensor | None = None

    def __init__(
        self,
        device: torch.device,
        base: Base,
        weights: Sequence[float],
        slots: int,
        shape: tuple[int, ...],
        grid: float,
    ) -> None:
        self.device, self.base, self.shape, self.grid = device, base, shape, grid
        self.cumulative, self.thresholds = np.cumsum(weights)[:-1], thresholds(weights)
        self.slots: list[_Slot | None] = [None] * slots

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """See NoiseSource."""
        inputs = zip(
            x.flatten(1).cpu().clone(), scales.flatten(2).cpu().clone(), strict=True
        )  # who gave them may change
        for slot, stream, pair in zip(slots, streams, inputs, strict=True):
            self.slots[slot] = _Slot(stream, *pair)
            if self.grid:
                check_range(float(pair[0].abs().max() + REACH[self.base] * pair[1].max()), self.grid)

    def noisy(self, slot: np.ndarray, vote: np.ndarray, place: Tensor | None = None) -> Tensor:
        """See NoiseSource."""
        out = torch.zeros(len(slot), int(np.prod(self.shape)), dtype=torch.float32, device="cpu")
        for start, stop in _runs(slot):
            state = self.slots[slot[start]]
            assert state is not None, "a slot is opened before its votes are drawn"
            assert state.drawn == vote[start], "the votes of an example are drawn in order"
            state.drawn += stop - start
            rows = out[start:stop]
            if not self.grid:
                self._fill(state, rows)
                continue
            first = int(vote[start])
            for part in torch.split(rows, max(1, CHUNK // rows.shape[1])):
                self._fill_on_grid(state, first, part.numpy())
                first += len(part)
        return out.view(len(slot), *self.shape).to(self.device)

    def settle(self, noisy: Tensor, rows: np.ndarray, slot: np.ndarray, vote: np.ndarray) -> None:
        """See NoiseSource: there are none."""

    def _fill(self, state: "_Slot", rows: Tensor) -> None:
        eps = rows.numpy()
        if self.base == "normal":
            state.values.standard_normal(out=eps, dtype=np.float32)
        else:
            state.values.random(out=eps, dtype=np.float32)
            rows.mul_(2).sub_(1)
        if len(self.cumulative) == 0:
            scale = state.scales
        else:
            u = state.components.random(len(rows))
            scale = state.scales[torch.from_numpy(np.searchsorted(self.cumulative, u, side="right"))]
        torch.addcmul(state.x, rows, scale, out=rows)

    def _fill_on_grid(self, state: "_Slot", first: int, rows: np.ndarray) -> None:
        words = state.values.bit_generator.random_raw(rows.size).view(np.int64).reshape(rows.shape)
        scales = state.scales.double().numpy()
        if len(self.thresholds):
            drawn = state.components.bit_generator.random_raw(len(rows)).view(np.int64)
            scales = scales[np.searchsorted(self.thresholds, drawn, side="right")]
        scale = np.broadcast_to(scales, (len(scales), rows.shape[1]))
        k = multiples(
            words, state.x.double().numpy(), scale if len(self.thresholds) else scale[0], self.grid, self.base,
            lambda row, i: state.stream.further(first + row, i),
        )  # fmt: skip
        np.multiply(k, self.grid, out=rows, casting="same_kind")


class _Slot:
    """One input in flight and how far its stream has been read."""

    def __init__(self, stream: Stream, x: Tensor, scales: Tensor) -> None:
        self.stream, self.x, self.scales, self.drawn = stream, x, scales, 0
        self.values, self.components = stream.generator(lane=0), stream.generator(lane=1)


def _runs(slot: np.ndarray) -> Iterator[tuple[int, int]]:
    """The stretches [start, stop) of equal slot, padding (-1) left out."""
    edges = np.flatnonzero(np.diff(slot)) + 1
    for start, stop in zip([0, *edges], [*edges, len(slot)], strict=True):
        if slot[start] >= 0:
            yield int(start), int(stop)
