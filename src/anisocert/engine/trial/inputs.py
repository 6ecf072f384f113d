"""Inputs on which forms of a network are compared, and on which it shows whether rows of a batch know each other."""

from collections.abc import Iterator

import torch
from torch import Tensor

from anisocert.engine.grid import Base
from anisocert.engine.trial.agreement import GROUPS


def trial_inputs(rows: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Fixed inputs, small and large in turn: `rows x *shape`."""
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


def noisy_inputs(x: Tensor, scales: Tensor, rows: int, base: Base, grid: float) -> Tensor:
    """Inputs such as votes are about, with noise that no vote has, on the grid: `rows x *shape`.

    x: `b x *shape`; scales: `b x j x *shape`, or what broadcasts to it.
    """
    at, component = (torch.arange(rows, device=x.device) % count for count in (len(x), scales.shape[1]))
    eps = torch.empty(rows, *x.shape[1:], dtype=torch.float32, device=x.device)
    generator = torch.Generator(x.device).manual_seed(3)
    if base == "normal":
        eps.normal_(generator=generator)
    else:
        eps.uniform_(-1, 1, generator=generator)
    noisy = x[at] + scales.expand(len(x), *scales.shape[1:])[at, component] * eps
    return (noisy / grid).round() * grid if grid else noisy


def own_companies(sample: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Such batches of noisy inputs: a network may look for the range of a batch, so others are quieter, or louder."""
    row, quiet = torch.arange(len(sample), device=sample.device), torch.zeros_like(sample)
    alone = [(row == len(sample) * part // 5, quiet) for part in range(5)]
    even = row % 2 == 0
    for kept, others in (*alone, (even, quiet), (~even, sample[:1]), (even, 100 * sample), (~even, -100 * sample)):
        yield torch.where(kept.view(-1, *(1 for _ in sample.shape[1:])), sample, others), kept
