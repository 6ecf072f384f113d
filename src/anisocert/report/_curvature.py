"""Directions in which a smoothed class probability bends most and least, without ever writing down its Hessian."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmoothProbability:
    """Mean softmax probability of one class over a fixed set of noisy copies.

    eps: `s x *shape`, noise that is added to every input alike, so that differences between inputs are theirs alone.
    """

    model: Callable[[Tensor], Tensor]
    label: int
    eps: Tensor
    outputs: str = "logits"
    rows: int = 1024

    def values(self, x: Tensor) -> Tensor:
        """Probability at each of some points: `b x *shape` -> `b`."""
        step = max(1, self.rows // len(self.eps))
        with torch.no_grad():
            return torch.cat([self._mean(x[i : i + step]) for i in range(0, len(x), step)])

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient at one point: `*shape`."""
        point = x.detach().clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(self._mean(point[None])[0], [point])
        return slope

    def bend(self, x: Tensor, direction: Tensor, step: float) -> Tensor:
        """Hessian times a direction of length 1, by a central difference of gradients.

        Not by differentiating twice: networks of ReLUs are flat between their kinks, and all that makes the smoothed
        probability bend are the kinks, which automatic second derivatives do not see.
        """
        return (self.gradient(x + step * direction) - self.gradient(x - step * direction)) / (2 * step)

    def _mean(self, x: Tensor) -> Tensor:
        scores = self.model((x[:, None] + self.eps[None]).flatten(0, 1)).float()
        p = scores if self.outputs == "probabilities" else scores.softmax(1)
        mean: Tensor = p[:, self.label].view(len(x), -1).mean(1)
        return mean


def lanczos(apply: Callable[[Floats], Floats], dim: int, steps: int) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors (columns) of a symmetric operator, as far as `steps` products with it tell.

    Largest magnitude first. Every new vector is made orthogonal to all earlier ones, twice, as rounding undoes the
    short recurrence; where the space is exhausted it continues from a fresh random vector, so that `dim` steps give
    everything, repeated eigenvalues too.
    """
    generator = np.random.default_rng(0)
    steps = min(steps, dim)
    basis, products = np.zeros((steps, dim)), np.zeros((steps, dim))
    vector = generator.normal(size=dim)
    for i in range(steps):
        for _ in range(2):
            vector = vector - basis[:i].T @ (basis[:i] @ vector)
        basis[i] = vector / np.linalg.norm(vector)
        products[i] = vector = apply(basis[i])
        residual = vector - basis[: i + 1].T @ (basis[: i + 1] @ vector)
        if float(np.linalg.norm(residual)) <= 1e-10 * float(np.linalg.norm(vector)):
            vector = generator.normal(size=dim)
    small = basis @ products.T
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    order = np.argsort(-np.abs(values))
    return values[order], (basis.T @ vectors)[:, order]
