"""How a run spends alpha: each input the whole of it, all inputs together, or all that a memory ever sees."""

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import lifetime_alpha


def shares(alpha: float, count: int, simultaneous: bool = False, first: int | None = None) -> NDArray[np.float64]:
    """The probability with which the certificate of each of a run's inputs, in order of id, may be wrong.

    simultaneous: the probability that any of them is wrong is at most alpha, by a union bound. first: the same for all
    that a memory ever sees; this is the number of the run's first one among them, from 1. All inputs count, even those
    that will abstain: which are certified is decided by the same votes that may mislead.
    """
    if simultaneous:
        # 1/count need not be a binary fraction; a few ulps less, and the parts never add up to more than alpha.
        return np.full(count, alpha / count * (1 - 2.0**-50))
    if first is not None:
        return np.asarray(lifetime_alpha(alpha, first + np.arange(count)))
    return np.full(count, alpha)
