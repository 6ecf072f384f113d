"""Codes from thetas that were found for single inputs: the centres of their clusters."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.vq import ClusterError, kmeans2

from anisocert.errors import ArgumentError

TRIES = 20


def clustered(thetas: Sequence[ArrayLike], count: int, seed: int = 0) -> NDArray[np.float32]:
    """`count` codes of the thetas' shape, by k-means of their logarithms, in order of their geometric means."""
    logs = np.log(np.stack([np.asarray(theta, np.float64) for theta in thetas]))
    flat = logs.reshape(len(logs), -1)
    if not 1 <= count <= len(np.unique(flat, axis=0)):
        raise ArgumentError(f"expected 1 to {len(np.unique(flat, axis=0))} shapes, of different thetas, got {count}")
    rng = np.random.default_rng(seed)
    for _ in range(TRIES):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                centres, _ = kmeans2(flat, count, iter=50, minit="++", missing="raise", seed=rng)
        except ClusterError:  # one of them lost its last theta
            continue
        order = np.argsort(centres.mean(1), kind="stable")
        codes: NDArray[np.float32] = np.exp(centres[order]).astype(np.float32).reshape(count, *logs.shape[1:])
        return codes
    raise ArgumentError(f"expected thetas in {count} clusters, got none in {TRIES} tries: ask for fewer shapes")
