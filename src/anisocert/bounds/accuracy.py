"""From one input to many: what a whole data set, or a lifetime of certificates, may claim."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from anisocert.bounds._arrays import FloatOrArray, Floats, Integers, at_most, broadcast, integers, levels, unwrap
from anisocert.bounds.clopper_pearson import LEAST_ALPHA


def high_probability_accuracy(correct: ArrayLike, total: ArrayLike, alpha: ArrayLike, rho: ArrayLike) -> FloatOrArray:
    """Accuracy of a data set, right with probability 1 - rho, when each certificate may fail with probability alpha.

    `correct` of `total` inputs were certified correct. The number of false ones among them is at most Binomial(total,
    alpha), and exceeds its (1 - rho)-quantile with probability at most rho; that many are subtracted. Shapes broadcast;
    the result is at least 0, and 0 for rho < 1e-200.
    """
    correct, total, alpha, rho = broadcast(
        correct=integers("correct", correct, 0),
        total=integers("total", total, 1),
        alpha=levels("alpha", alpha),
        rho=levels("rho", rho),
    )
    at_most("correct", correct, "total", total)
    return unwrap(np.maximum(correct - _quantile(total, alpha, rho), 0) / total)


def lifetime_alpha(alpha: ArrayLike, i: ArrayLike) -> FloatOrArray:
    """alpha/(i(i+1)) for the i-th certificate, i = 1, 2, ...: summed over any number of them it stays below alpha."""
    level, index = broadcast(alpha=levels("alpha", alpha), i=integers("i", i, 1))
    # a few ulps less, so that rounded parts never add up to more
    return unwrap(level / (index * (index + 1.0)) * (1 - 2.0**-50))


def _quantile(total: Integers, alpha: Floats, rho: Floats) -> Integers:
    """Smallest q with P(Binomial(total, alpha) > q) <= rho, by bisection over the integers -1 < q <= total."""
    low, high = np.full_like(total, -1), total
    while (high - low > 1).any():
        middle = np.minimum((low + high + 1) // 2, total - 1)  # beyond total - 1 the probability is 0: no need to ask
        enough = (betainc(middle + 1.0, total - middle, alpha) <= rho * (1 - 1e-10)) & (rho >= LEAST_ALPHA)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
