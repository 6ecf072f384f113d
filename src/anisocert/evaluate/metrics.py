"""Numbers about a finished run. All arrays have one entry per input."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def certified_accuracy(radius: ArrayLike, correct: ArrayLike, at: ArrayLike) -> NDArray[np.float64]:
    """Share of inputs that are answered correctly with a certificate of at least each radius in `at`."""
    size, right = np.asarray(radius), np.asarray(correct, bool)
    reach = np.sort(size[right])
    return (len(reach) - np.searchsorted(reach, np.atleast_1d(np.asarray(at)), side="left")) / len(size)


def average_certified_radius(radius: ArrayLike, correct: ArrayLike) -> float:
    """Mean of radius x correct (ACR; with proxy radii, the paper's ACR~)."""
    return float((np.asarray(radius) * np.asarray(correct, bool)).mean())


def median_certified_radius(radius: ArrayLike, correct: ArrayLike) -> float:
    """The largest radius at which the certified accuracy is still at least one half; 0 if it is nowhere.

    A few huge regions can raise a mean without limit; they do not move this.
    """
    reach = np.sort(np.asarray(radius) * np.asarray(correct, bool))[::-1]
    return float(reach[(len(reach) + 1) // 2 - 1])
