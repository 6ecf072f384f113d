"""A question to a network: inputs under noise, and where that noise comes from."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from anisocert.engine.network import Network
from anisocert.engine.noise import NoiseSource, noise_source, span
from anisocert.engine.streams import Stage, Stream
from anisocert.engine.told import ToldNoise, beside, expect_one_level
from anisocert.errors import ArgumentError
from anisocert.inputs import exact_float32
from anisocert.smoothing import Smoothing


@dataclass(frozen=True, eq=False)
class Query:
    """A batch of inputs, as every stage sees it; `Query.of` makes one from what a user gives.

    x: `b x *shape`, float32 on the network's device. ids: one per input, by which, with the seed, its noise is drawn.
    """

    network: Network
    smoothing: Smoothing
    x: Tensor
    ids: Sequence[int]
    seed: int

    @classmethod
    def of(
        cls,
        network: Network,
        smoothing: Smoothing,
        x: Tensor | ArrayLike,
        ids: Sequence[int] | None = None,
        seed: int = 0,
    ) -> "Query":
        """Checked inputs, with distinct ids (default 0, 1, ...)."""
        inputs = _inputs(x, network.device)
        query = cls(network, smoothing, inputs, _numbers(ids, len(inputs)), seed)
        query.streams(Stage.ESTIMATE)  # a seed or an id that names no stream is found here, not after an hour of votes
        return query

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    def part(self, places: Sequence[int]) -> "Query":
        """Some of the inputs, in any order and any number of times."""
        return replace(self, x=self.x[span(places)], ids=[int(self.ids[i]) for i in places])

    def streams(self, stage: Stage) -> list[Stream]:
        """The noise of each input in a stage."""
        return [Stream(self.seed, stage, number) for number in self.ids]

    def noise(self, slots: int, grid: float = 0.0) -> NoiseSource:
        """Draws what the network is given: noisy inputs, each beside its noise's scale if the network is told that."""
        device, smoothing = self.network.device, self.smoothing
        source = noise_source(device, smoothing.base, smoothing.weights, slots, self.shape, grid)
        if not self.network.told_theta:
            return source
        expect_one_level(smoothing.weights)
        return ToldNoise(source, slots, self.shape, device)

    def given(self, noisy: Tensor, scale: Tensor) -> Tensor:
        """What the network is given of copies drawn elsewhere. noisy: `(b copies) x *shape`; scale: `b x ...`."""
        if not self.network.told_theta:
            return noisy
        expect_one_level(self.smoothing.weights)
        return beside(noisy, scale.repeat_interleave(len(noisy) // len(scale), 0))


def _inputs(x: Tensor | ArrayLike, device: torch.device) -> Tensor:
    plain = isinstance(x, Tensor) and x.layout == torch.strided and not x.is_meta
    if isinstance(x, Tensor) and plain and x.dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs = x.detach().to(device, torch.float32, copy=True)  # exact; a copy, as the caller may fill x anew
    else:
        inputs = torch.from_numpy(exact_float32("x", x)).to(device)
    if inputs.dim() < 2 or inputs.numel() == 0:
        raise ArgumentError(
            f"expected x of shape (inputs, *shape) with at least one input, got {tuple(inputs.shape)}"
            + (": of one input, pass x[None]" if inputs.numel() else "")
        )
    if not bool(inputs.isfinite().all()):
        raise ArgumentError("expected finite x, got NaN or infinity")
    return inputs


def _numbers(ids: Sequence[int] | None, inputs: int) -> list[int]:
    try:
        numbers = list(range(inputs)) if ids is None else [operator.index(i) for i in ids]
    except TypeError as error:
        raise ArgumentError(f"expected ids as whole numbers, got {ids!r}") from error
    if len(numbers) != inputs:
        raise ArgumentError(f"expected one id for each of {inputs} inputs, got {len(numbers)}")
    if len(set(numbers)) != len(numbers):
        raise ArgumentError("expected distinct ids (equal ones would share their noise), got repeated ones")
    return numbers
