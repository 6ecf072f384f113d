"""The sign test by which a smoothed classifier decides whether its vote is clear enough (Cohen et al. 2019)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from anisocert.bounds._arrays import FloatOrArray, at_most, broadcast, integers, unwrap
from anisocert.bounds.clopper_pearson import LEAST_ALPHA


def binomial_test(k: ArrayLike, n: ArrayLike) -> FloatOrArray:
    """Two-sided p-value (rounded up, at least 1e-200) of "k of n votes came from a fair coin"; shapes broadcast.

    PREDICT takes k = votes of the top class, n = votes of the top class and the runner-up, and abstains when the
    p-value exceeds alpha.
    """
    k, n = broadcast(k=integers("k", k, 0), n=integers("n", n, 1))
    at_most("k", k, "n", n)
    fewer = np.minimum(k, n - k)
    tail = betainc(n - fewer, fewer + 1.0, 0.5)  # P(X <= fewer): the fair coin is symmetric, both tails are equal
    return unwrap(np.clip(2.0 * tail * (1 + 1e-10), LEAST_ALPHA, 1.0))
