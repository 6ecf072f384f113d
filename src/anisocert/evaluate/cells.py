"""Results as cells of a table, with 95 % intervals; empty where the source does not say."""

from collections.abc import Sequence

import numpy as np

from anisocert.evaluate.intervals import bootstrap, median_interval, wilson
from anisocert.evaluate.results import SIZES, Results, Size
from anisocert.evaluate.sigmas import envelope, oracle
from anisocert.evaluate.table import Cell


def accuracies(one: Results, at: Sequence[float], size: Size = "radius") -> list[Cell]:
    """Certified accuracy at each of some sizes."""
    if not one.knows(size):
        return [Cell(None)] * len(at)
    shares = one.accuracy(at, size)
    low, high = wilson(np.rint(shares * len(one)), len(one))
    return [Cell(float(s), float(a), float(b)) for s, a, b in zip(shares, low, high, strict=True)]


def averages(levels: Sequence[Results]) -> list[Cell]:
    """ACR and ACR~; of several noise levels by the oracle, which chooses by each size apart, as the paper's tables."""
    return [_average(levels, size) for size in SIZES]


def medians(one: Results) -> list[Cell]:
    """The median radius and the median proxy radius."""
    return [_median(one, size) for size in SIZES]


def best_accuracies(levels: Sequence[Results], at: Sequence[float], size: Size = "radius") -> list[Cell]:
    """Certified accuracy of the best noise level at each size (the envelope)."""
    if not all(level.knows(size) for level in levels):
        return [Cell(None)] * len(at)
    return [Cell(float(share)) for share in envelope(levels, at, size)]


def noise(one: Results) -> Cell:
    """The noise level."""
    return Cell("–" if one.sigma is None else f"{one.sigma:g}")


def _average(levels: Sequence[Results], size: Size) -> Cell:
    if not all(level.knows(size) for level in levels):
        return Cell(None)
    results = oracle(levels, size) if len(levels) > 1 else levels[0]
    return Cell(results.mean(size), *bootstrap(results.certified(size)))


def _median(results: Results, size: Size) -> Cell:
    if not results.knows(size):
        return Cell(None)
    low, high = median_interval(results.certified(size))
    return Cell(results.median(size), low, high) if np.isfinite(low) else Cell(results.median(size))
