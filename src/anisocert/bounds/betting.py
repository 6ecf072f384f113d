"""Confidence bounds of a share that hold at every number of votes at once, so that one may look and stop at any time.

A gambler bets against "the share is m" with wealth

    W(m) = mean over q of (q/m)^k ((1-q)/(1-m))^(n-k),    q ~ Beta(1/2, 1/2) conditioned on q > m.

If the share is m or less, W is a non-negative supermartingale that starts at 1, so that it ever reaches 1/alpha with
probability at most alpha (Ville 1939; confidence sequences by betting: Waudby-Smith & Ramdas 2024). Every m with
W(m) >= 1/alpha is ruled out, and stays ruled out: the running maximum of the bound over n is as valid as its last.
In closed form, with I the regularised incomplete beta function,

    W(m) = B(k+1/2, n-k+1/2) / (B(1/2,1/2) m^k (1-m)^(n-k)) * (1 - I_m(k+1/2, n-k+1/2)) / (1 - I_m(1/2, 1/2)).
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincc, betaln, xlog1py

from anisocert.bounds._arrays import FloatOrArray, Floats, Integers, settle, tally, unwrap
from anisocert.rounding import up


def lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatOrArray:
    """Smallest m with W(m) < 1/alpha, rounded down: with probability 1 - alpha below the true share at *every* n.

    k, n: integers, 0 <= k <= n, n >= 1; alpha in (0, 1); any shapes that broadcast. Scalars in, Python float out.
    """
    k, n, alpha = tally(k, n, alpha)
    bound = np.zeros(k.shape)
    positive = k > 0  # without a single vote W <= 1 everywhere: nothing is ruled out
    bound[positive] = _lower(k[positive], n[positive], alpha[positive])
    return unwrap(bound)


def upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatOrArray:
    """Upper bound by symmetry: 1 minus the lower bound for the n - k other votes. Arguments as for `lower`."""
    k, n, alpha = tally(k, n, alpha)
    rest = np.asarray(lower(n - k, n, alpha))
    # 1 - rest may round down by half an ulp; one ulp up is never too low.
    return unwrap(np.where(rest > 0, np.minimum(up(1.0 - rest), 1.0), 1.0))


def log_wealth(k: Integers, n: Integers, m: Floats) -> Floats:
    """log W(m) for 0 < k <= n and 0 < m < 1, all of one shape."""
    return _log_wealth_and_slope(k, n, m)[0]


def _log_wealth_and_slope(k: Integers, n: Integers, m: Floats) -> tuple[Floats, Floats]:
    """log W(m), and its derivative with respect to log m."""
    inverse_density = betaln(k + 0.5, n - k + 0.5) - k * np.log(m) - xlog1py(n - k, -m)
    tail = betaincc(k + 0.5, n - k + 0.5, m)
    prior_tail = 2 / np.pi * np.arctan2(np.sqrt(1 - m), np.sqrt(m))  # 1 - I_m(1/2, 1/2), the arcsine law
    log_wealth = inverse_density - np.log(np.pi) + np.log(tail) - np.log(prior_tail)
    root_odds = np.sqrt(m / (1 - m))
    slope = (n * m - k) / (1 - m) - root_odds * np.exp(-inverse_density) / tail + root_odds / np.pi / prior_tail
    return log_wealth, slope


def _lower(k: Integers, n: Integers, alpha: Floats) -> Floats:
    """The bound for one-dimensional arrays with k > 0.

    Sought on (0, k/n] only: there W falls from infinity to at most 1, beyond it W rises again and a solver could land
    on the wrong root. Newton's method in log m, in which log W is nearly straight for small m and for k near n.
    """
    # Logs of size n cancel in log W. Their error against 60-digit arithmetic: 3e-10 at n = 1e5, 2e-6 at 1e9.
    slack = 1e-11 + 2e-14 * n
    ruled_out = -np.log(alpha) + slack
    aim = ruled_out + slack
    low, high = np.zeros(k.shape), k / n
    m = _first_guess(k, n, alpha)
    todo = np.arange(k.size)
    while todo.size:
        value, slope = _log_wealth_and_slope(k[todo], n[todo], m[todo])
        excess = value - aim[todo]
        rich = excess > 0
        low[todo] = np.where(rich, m[todo], low[todo])
        high[todo] = np.where(rich, high[todo], m[todo])
        # Done within half a slack of the aim, or when no float is left between the ends of the bracket.
        unsettled = (np.abs(excess) > slack[todo] / 2) & (high[todo] - low[todo] > np.spacing(high[todo]))
        todo, excess, slope = todo[unsettled], excess[unsettled], slope[unsettled]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            newton = m[todo] * np.exp(-excess / slope)
        inside = (newton > low[todo]) & (newton < high[todo])  # False for NaN
        m[todo] = np.where(inside, newton, (low[todo] + high[todo]) / 2)
    # W falls on (0, k/n], so that wealth enough at m rules out everything below m as well.
    return settle(m, 0, lambda m: (m == 0) | (log_wealth(k, n, np.maximum(m, 1e-320)) >= ruled_out))


def _first_guess(k: Integers, n: Integers, alpha: Floats) -> Floats:
    """Wilson's score bound at the deviation that the betting bound has to first order; strictly inside (0, k/n)."""
    share = k / n
    z2 = 2 * (-np.log(alpha) + 0.5 * np.log(n + 1.0) + 1.0)
    upper_root = share + z2 / (2 * n) + np.sqrt(z2 * (share * (1 - share) / n + z2 / (4.0 * n * n)))
    return np.asarray(share * share / upper_root)
