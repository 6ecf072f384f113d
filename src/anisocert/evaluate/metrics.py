"""Numbers about a finished run. All arrays have one entry an input."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def certified_accuracy(radius: ArrayLike, correct: ArrayLike, at: ArrayLike) -> NDArray[np.float64]:
    """Share of inputs that are answered correctly with a certificate of at least each radius in `at`."""
    reach = np.asarray(radius)[None] >= np.atleast_1d(np.asarray(at))[:, None]
    share: NDArray[np.float64] = (reach & np.asarray(correct, bool)).mean(1)
    return share


def average_certified_radius(radius: ArrayLike, correct: ArrayLike) -> float:
    """Mean of radius x correct (ACR; with proxy radii, the paper's ACR~)."""
    return float((np.asarray(radius) * np.asarray(correct, bool)).mean())
