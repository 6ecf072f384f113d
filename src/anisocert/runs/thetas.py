"""Thetas as they are stored: where a search found no better shape than a ball, one number stands for all."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_VALUES = 1 << 24  # of an input; what `run.json` says about its shape is anybody's word

Theta = NDArray[np.float32]


def packed(theta: Theta) -> Theta:
    """The array to store: of shape `1 x 1 x ...` for a theta of several axes that is one number throughout."""
    theta = np.atleast_1d(theta)
    if theta.ndim < 2 or not bool((theta == theta.flat[0]).all()):
        return theta
    return theta.ravel()[:1].reshape((1,) * theta.ndim).copy()


def unpacked(stored: Theta, shape: Any) -> Theta:
    """A scalar, or an array of the input's shape that takes no more memory than is stored. shape: what the run says.

    A number whose shape is not known, or not one, is a scalar, which is the same noise.
    """
    if stored.size > 1:
        return stored
    said = tuple(shape) if isinstance(shape, list | tuple) else ()
    whole = all(type(size) is int and 0 < size <= MOST_VALUES for size in said)
    if stored.ndim > 1 and stored.ndim == len(said) and whole and math.prod(said) <= MOST_VALUES:
        return np.broadcast_to(stored, said)
    return stored.reshape(())
