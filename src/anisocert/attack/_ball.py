"""The unit ball that a region is in coordinates u = (z - centre) / axes: points of it, steps in it, the way back."""

import torch
from torch import Tensor

SPARSE = 0.05  # share of the coordinates that a step in l1 moves


def length(u: Tensor, norm: int) -> Tensor:
    """The gauge of each point. u: `m x d` -> `m`."""
    return u.abs().sum(1) if norm == 1 else u.square().sum(1).sqrt()


def project(u: Tensor, budget: Tensor, norm: int) -> Tensor:
    """The nearest points of gauge at most `budget`. u: `m x d`; budget: `m`."""
    if norm == 2:
        return u * (budget / length(u, 2).clamp_min(1e-30)).clamp(max=1.0).unsqueeze(1)
    # Duchi et al. (2008): soft thresholding, at the level that leaves an l1 length of `budget`.
    ranked = u.abs().sort(1, descending=True).values
    excess = (ranked.cumsum(1) - budget.unsqueeze(1)) / torch.arange(1, u.shape[1] + 1, device=u.device)
    kept = (ranked > excess).sum(1, keepdim=True).clamp_min(1)
    level = excess.gather(1, kept - 1)
    shrunk = u.sign() * (u.abs() - level).clamp_min(0)
    return torch.where((length(u, 1) > budget).unsqueeze(1), shrunk, u)


def steepest(gradient: Tensor, norm: int) -> Tensor:
    """A direction of ascent, of length 1. gradient: `m x d`.

    In l1 it is sparse, along the few largest slopes: the very largest alone would be exact for one step, and slow.
    """
    if norm == 2:
        return gradient / length(gradient, 2).clamp_min(1e-30).unsqueeze(1)
    count = max(1, round(SPARSE * gradient.shape[1]))
    smallest = gradient.abs().topk(count, 1).values[:, -1:]
    sparse = torch.where(gradient.abs() >= smallest, gradient, 0.0)
    return sparse / length(sparse, 1).clamp_min(1e-30).unsqueeze(1)


def starts(count: int, shape: tuple[int, int], norm: int, generator: torch.Generator) -> Tensor:
    """Where to begin, for each of m inputs: the centre, then random points, every other one on the boundary.

    shape: (m, d) -> `m x count x d`.
    """
    m, d = shape
    raw = torch.randn(m, count, d, generator=generator, dtype=torch.float32, device="cpu")
    if norm == 1:  # uniform on a facet: exponential shares with random signs
        shares = torch.rand(raw.shape, generator=generator, dtype=torch.float32, device="cpu")
        raw = raw.sign() * -shares.clamp_min(1e-30).log()
    unit = (raw.flatten(0, 1) / length(raw.flatten(0, 1), norm).unsqueeze(1)).view(m, count, d)
    depth = torch.rand(m, count, generator=generator, dtype=torch.float32, device="cpu")
    depth[:, 1::2] = 1.0
    depth[:, 0] = 0.0
    return unit * depth.unsqueeze(2)
