"""A map to a few coordinates that never makes two points farther apart: far pairs are found without reading them.

With an orthonormal basis P of a few directions, phi(c) = (P (c - m), ||(c - m) - P'P (c - m)||) satisfies
||phi(c) - phi(z)||_2 <= ||c - z||_2 <= ||c - z||_1. The last coordinate, the length of what the others miss, comes from
Pythagoras and the triangle inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_DIRECTIONS: Final = 64
# The error of a coordinate in float32, as a share of the length of the point: rounding is 6e-8, and the sums in float64
# before it add dim x 1e-16.
COORDINATE_ERROR: Final = 1e-6
# A basis further than this from orthonormal is not used; what remains is far below _RELATIVE_ERROR of _shadow.py.
_MOST_SKEWED: Final = 1e-10


@dataclass(frozen=True)
class Projection:
    """mean: m, `dim`. basis: P, `k x dim`."""

    mean: Floats
    basis: Floats

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.mean.nbytes + self.basis.nbytes

    @classmethod
    def of(cls, sample: Floats) -> Projection:
        """The directions in which some points differ most, strongest first. sample: `n x dim`."""
        n, dim = sample.shape
        k = min(MOST_DIRECTIONS, dim, n)
        scale = float(np.abs(sample).max()) or 1.0
        offsets = sample / scale
        middle = offsets.mean(axis=0)
        offsets -= middle
        # Eigenvectors of the small n x n matrix give the directions; QR makes them orthonormal to the last bits.
        vectors = np.linalg.eigh(offsets @ offsets.T)[1][:, : -k - 1 : -1]
        basis = np.ascontiguousarray(np.linalg.qr(offsets.T @ vectors)[0].T)
        skewed = float(np.abs(basis @ basis.T - np.eye(k)).max()) * k
        return cls(middle * scale, basis if skewed < _MOST_SKEWED else np.eye(k, dim))

    def __call__(self, points: Floats) -> tuple[NDArray[np.float32], Floats]:
        """Coordinates of n points, `n x (k + 1)`, and n sizes of which COORDINATE_ERROR bounds the coordinates' error.

        Numbers beyond float32 become infinite, which no comparison treats as far.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            offsets = points - self.mean
            inside = offsets @ self.basis.T
            offsets -= inside @ self.basis
            rest = np.sqrt(np.square(offsets).sum(axis=1, keepdims=True))
            sizes = np.sqrt(np.square(points).sum(axis=1)) + np.sqrt(np.square(self.mean).sum())
            return np.concatenate([inside, rest], axis=1).astype(np.float32), sizes
