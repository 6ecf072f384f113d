"""Exact one-sided confidence bounds of a binomial share (Clopper & Pearson 1934), for a fixed number of votes."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betainccinv, betaincinv

from anisocert.bounds._arrays import FloatOrArray, Floats, Integers, settle, tally, unwrap

LEAST_ALPHA = 1e-200  # below, scipy's betainc may be wrong by many orders of magnitude: nothing is claimed there


def lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatOrArray:
    """Largest p (rounded down) below which the true share lies with probability at most alpha, given k of n votes.

    BetaInv(alpha; k, n-k+1): the p at which k or more votes have probability alpha. 0 for k = 0 and
    alpha < 1e-200, alpha^(1/n) for k = n.
    k, n: integers, 0 <= k <= n, n >= 1; alpha in (0, 1); any shapes that broadcast. Scalars in, Python float out.
    """
    k, n, alpha = tally(k, n, alpha)
    a, b, slack = np.maximum(k, 1), n - k + 1, _slack(n)
    p = betaincinv(a, b, alpha * (1 - 2 * slack))
    p = settle(p, 0, lambda p: betainc(a, b, p) <= alpha * (1 - slack))
    return unwrap(np.where((k == 0) | (alpha < LEAST_ALPHA), 0.0, p))


def upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatOrArray:
    """Smallest p (rounded up) above which the true share lies with probability at most alpha, given k of n votes.

    BetaInv(1-alpha; k+1, n-k), through the complement so that small alpha and small p keep their digits. 1 for k = n
    and alpha < 1e-200, 1 - alpha^(1/n) for k = 0. Arguments as for `lower`.
    """
    k, n, alpha = tally(k, n, alpha)
    a, b, slack = k + 1, np.maximum(n - k, 1), _slack(n)
    p = betainccinv(a, b, alpha * (1 - 2 * slack))
    p = settle(p, 1, lambda p: betaincc(a, b, p) <= alpha * (1 - slack))
    return unwrap(np.where((k == n) | (alpha < LEAST_ALPHA), 1.0, p))


def _slack(n: Integers) -> Floats:
    """Relative share of alpha kept back for the error of scipy's betainc.

    Measured against 60-digit arithmetic: 8e-14 up to n = 1e5, 7e-13 at 1e6, 1e-11 at 1e9; this is several times that.
    It moves the bound in about the twelfth digit, and also covers the rounding of an alpha that was split in parts.
    That is for alpha from 1e-60 to 1/2; above, 2e-11 was seen at n = 1e6; below, down to LEAST_ALPHA, 3e-13.
    """
    return np.asarray(1e-12 + 3e-15 * np.sqrt(n))
