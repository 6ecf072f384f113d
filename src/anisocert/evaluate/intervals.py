"""Confidence intervals for what a sample of inputs says about the population it was drawn from.

They are about the choice of inputs. That a certificate may itself be wrong is the business of alpha.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, ndtri

from anisocert.bounds import lower, upper
from anisocert.errors import ArgumentError

_AT_ONCE = 4_000_000  # draws


def wilson(count: ArrayLike, total: int, confidence: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval (low, high) of a share of which `count` of `total` were seen (Wilson 1927); good also near 0 and 1."""
    _check(total, confidence)
    seen = np.asarray(count, np.float64) / total
    z = float(ndtri((1 + confidence) / 2))
    middle = (seen + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * np.sqrt(seen * (1 - seen) / total + z * z / (4 * total * total))
    # at the ends the formula gives 0 and 1 up to rounding, and the interval must hold what was seen
    return np.clip(np.minimum(middle - half, seen), 0, 1), np.clip(np.maximum(middle + half, seen), 0, 1)


def clopper_pearson(
    count: ArrayLike, total: int, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """An exact interval of such a share: it misses with at most the stated probability, however few were seen."""
    _check(total, confidence)
    miss = (1 - confidence) / 2
    return np.asarray(lower(count, total, miss)), np.asarray(upper(count, total, miss))


def bootstrap(values: ArrayLike, confidence: float = 0.95, resamples: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Interval (low, high) of a mean, by percentiles over samples drawn again from the sample (Efron 1979)."""
    sample = np.asarray(values, np.float64)
    _check(len(sample), confidence)
    means = np.concatenate([sample[indices].mean(1) for indices in _draws(len(sample), resamples, seed)])
    low, high = np.quantile(means, [(1 - confidence) / 2, 1 - (1 - confidence) / 2])
    return float(low), float(high)


def _draws(size: int, resamples: int, seed: int) -> Iterable[NDArray[np.int64]]:
    """Which values samples of the size have, a row for each, in parts; those of small ones are kept for the next."""
    return _kept(size, resamples, seed) if size * resamples <= _AT_ONCE else _drawn(size, resamples, seed)


@lru_cache(2)
def _kept(size: int, resamples: int, seed: int) -> list[NDArray[np.int64]]:
    return list(_drawn(size, resamples, seed))


def _drawn(size: int, resamples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    rng, at_once = np.random.default_rng(seed), max(1, _AT_ONCE // size)
    for first in range(0, resamples, at_once):
        yield rng.integers(0, size, (min(at_once, resamples - first), size))


def median_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Interval (low, high) of the median between two of the values, exact whatever their distribution is.

    Each value lies below the median with probability one half at most, and above it likewise: how many may is binomial.
    Infinite where there are too few for the confidence (below six for 95 %).
    """
    sample = np.sort(np.asarray(values, np.float64))
    _check(len(sample), confidence)
    below = bdtr(np.arange(len(sample) // 2), len(sample), 0.5)  # P(at most so many lie below it)
    out = int((below <= (1 - confidence) / 2).sum())  # values on each side that may be left out
    return (float(sample[out - 1]), float(sample[-out])) if out else (-np.inf, np.inf)


def _check(total: int, confidence: float) -> None:
    if total < 1:
        raise ArgumentError(f"expected at least one input, got {total}")
    if not 0 < confidence < 1:
        raise ArgumentError(f"expected confidence in (0, 1), got {confidence}")
