"""How a run spends alpha: each input the whole of it, all inputs together, or all that a memory ever sees."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import lifetime_alpha
from anisocert.errors import ArgumentError


def shares(alpha: float, count: int, simultaneous: bool = False, first: int | None = None) -> NDArray[np.float64]:
    """The probability with which the certificate of each of a run's inputs, in order of id, may be wrong.

    simultaneous: the probability that any of them is wrong is at most alpha, by a union bound. first: the same for all
    that a memory ever sees; this is the number of the run's first one among them, from 1. All inputs count, even those
    that will abstain: which are certified is decided by the same votes that may mislead.
    """
    if simultaneous:
        return np.full(count, _together(alpha, count))
    if first is not None:
        return np.asarray(lifetime_alpha(alpha, first + np.arange(count)))
    return np.full(count, alpha)


def alphas_of(said: Mapping[str, Any], rows: int) -> NDArray[np.float64]:
    """The alpha of each of a run's rows, in order of id, by what the run says of itself."""
    inputs, first = said.get("inputs"), said.get("lifetime_from")
    if said.get("lifetime") and first is None:
        raise ArgumentError("expected lifetime_from, which the memory gives a run, got none")
    if not said.get("simultaneous"):
        return shares(said["alpha"], rows, first=first)
    if isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 1:
        raise ArgumentError(f"expected inputs, a whole number >= 1, with simultaneous, got {inputs!r}")
    return np.full(rows, _together(said["alpha"], inputs))


def _together(alpha: float, inputs: int) -> float:
    # 1/inputs is not a binary fraction; a few ulps less, and the parts never add up to more than alpha.
    return alpha / inputs * (1 - 2.0**-50)
