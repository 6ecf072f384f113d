"""Several noise levels put together: two different rules that are easily confused."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError
from anisocert.evaluate.protection import NOBODY
from anisocert.evaluate.results import Results, Size, aligned


def envelope(results: Sequence[Results], at: ArrayLike, size: Size = "radius") -> NDArray[np.float64]:
    """At each size the certified accuracy of the noise level that is best there (Salman et al. 2019).

    A system can achieve this at one size of its choice: the level is chosen for the data set, not per input. It is
    chosen on these very inputs, with their labels, so the alphas of the levels add up here too.
    """
    shares: NDArray[np.float64] = np.max([part.accuracy(at, size) for part in aligned(results)], axis=0)
    return shares


def oracle(results: Sequence[Results], size: Size = "radius") -> Results:
    """For each input the noise level with the largest correct certificate (the rule of ANCER's tables).

    No system can achieve this: it looks at the true label. Any of the certificates may be the one chosen, so their
    alphas add up.
    """
    parts = aligned(results)
    if len({(part.method, part.norm, part.stage) for part in parts}) > 1:
        raise ArgumentError("expected results of one method, norm and stage, got several")
    if not all(part.knows(size) for part in parts):
        raise ArgumentError(f"expected results with a {size} of every correct answer, got some without")
    best = np.argmax([part.certified(size) for part in parts], axis=0)
    # where the largest is 0 a correct answer of size 0 still beats a wrong one
    right = np.array([part.correct for part in parts])
    best = np.where(right[best, np.arange(len(best))], best, right.argmax(0))

    def taken(name: str) -> NDArray[Any]:
        values: NDArray[Any] = np.stack([getattr(part, name) for part in parts])[best, np.arange(len(best))]
        return values

    return replace(
        parts[0], label=f"{parts[0].label}, oracle", sigma=None, protects=NOBODY, alpha=added_alphas(parts),
        prediction=taken("prediction"), radius=taken("radius"), proxy_radius=taken("proxy_radius"),
    )  # fmt: skip


def added_alphas(results: Sequence[Results]) -> float | None:
    """The probability that a given input's certificate is wrong where any of these may have been chosen, at most."""
    alphas = [part.alpha for part in results if part.alpha is not None]
    return math.fsum(alphas) if len(alphas) == len(results) else None
