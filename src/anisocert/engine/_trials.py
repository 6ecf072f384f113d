"""Inputs on which forms of a network are compared, and on which it shows whether rows of a batch know each other."""

from collections.abc import Iterator

import torch
from torch import Tensor

from anisocert.engine.agreement import GROUPS


def trial_inputs(rows: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """The same ones always, small and large in turn: `rows x *shape`."""
    generator = torch.Generator(device).manual_seed(0)
    sample = torch.empty(rows, *shape, dtype=torch.float32, device=device)
    sample[::GROUPS].uniform_(generator=generator)
    for group, (centre, scale) in enumerate(((0.5, 0.25), (0.0, 1.0), (0.0, 4.0)), start=1):
        sample[group::GROUPS].normal_(centre, scale, generator=generator)
    return sample


def companies(sample: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches with some rows unchanged, and which: the others are random, extreme, moved or constant.

    Not halves alone: a network may look at neighbours, or at each part of a batch by itself.
    """
    count, device = len(sample), sample.device
    row = torch.arange(count, device=device)
    generator = torch.Generator(device).manual_seed(1)
    drawn = torch.rand(count, generator=generator, dtype=torch.float32, device=device) < 0.5
    for kept, others in (
        (row < count // 2, 1 - 2 * sample),
        (row >= count // 2, 1e3 * sample.sign()),
        (row < count // 2, sample.flip(0)),
        (row >= count // 2, sample[:1].expand_as(sample)),
        (row % 2 == 0, 100 * sample.sign()),
        (row % 2 == 1, 1 - 2 * sample),
        (drawn, sample.roll(1, 0)),
        (row == count // 3, torch.zeros_like(sample)),
    ):
        yield torch.where(kept.view(-1, *(1 for _ in sample.shape[1:])), sample, others), kept
