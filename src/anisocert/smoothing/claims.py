"""What votes can claim: whether one counting can have produced them, and the bounds and gap that follow."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anisocert.bounds import Plan
from anisocert.certificate import COUNTS
from anisocert.smoothing.base import Floats, Smoothing


def impossible(counted: Mapping[str, Any], most: float = math.inf) -> Iterator[str]:
    """Why no counting can give these votes. counted: COUNTS and num_classes of an input; most: votes of its plan.

    The bound was taken after bound_n of the votes.
    """
    votes, top, second, k, n = (counted[name] for name in COUNTS)
    if not 1 <= n <= votes <= most:
        yield f"has {votes} votes and a bound after {n}" + (f", of at most {most}" if most < math.inf else "")
    if not (0 <= k <= top <= votes and top - k <= votes - n):
        yield f"has {top} of {votes} votes for its class, after {k} of {n}"
    if not (second >= 0 and k + second <= n <= k + second * (counted["num_classes"] - 1)):
        # The runner-up is the largest of the others: a smaller one could not account for all votes.
        yield f"has {k} votes for its class and {second} for the next, which do not make {n}"


def claimable(
    noise: type[Smoothing], plan: Plan, counted: Mapping[str, ArrayLike], num_classes: int, alpha: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """(p_a, p_b, gap) that votes give at their look's alpha. counted: each of COUNTS, of one input or of several."""
    p_a, p_b = plan.estimate(counted["bound_k"], counted["runner_up_votes"], counted["bound_n"], num_classes, alpha)
    return np.asarray(p_a), np.asarray(p_b), noise.gap(p_a, p_b)
