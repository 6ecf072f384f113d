"""From votes to (p_A, p_B): a share the top class surely has, and one that no other class surely exceeds."""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from anisocert.bounds import clopper_pearson
from anisocert.bounds._arrays import FloatOrArray, broadcast, levels, standing, unwrap, whole

MOST_COMPARED = 10**7  # classes: more than inputs.MOST_CLASSES, as a formula makes no tables for them
TOP_SHARE = 0.9
"""Part of alpha spent on p_A by the two-class bound: the radius depends far more on p_A than on p_B."""


class OneSided(Protocol):
    """A one-sided confidence bound of a share, such as `clopper_pearson.lower` or `betting.lower`."""

    def __call__(self, k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatOrArray:
        """Bound for k of n votes that fails with probability at most alpha."""


def one_vs_rest_bound(
    top_votes: ArrayLike, n: ArrayLike, alpha: ArrayLike, lower: OneSided = clopper_pearson.lower
) -> tuple[FloatOrArray, FloatOrArray]:
    """(p_A, 1 - p_A): what the field reports (Cohen et al. 2019). Shapes broadcast.

    The subtraction needs no rounding: for p_A >= 1/2 it is exact in floating point, below that p_B > p_A abstains.
    """
    p_a = lower(top_votes, n, alpha)
    return p_a, 1.0 - p_a


def two_class_bound(
    top_votes: ArrayLike,
    runner_up_votes: ArrayLike,
    n: ArrayLike,
    num_classes: int,
    alpha: ArrayLike,
    lower: OneSided = clopper_pearson.lower,
    upper: OneSided = clopper_pearson.upper,
) -> tuple[FloatOrArray, FloatOrArray]:
    """(p_A, p_B), both right with probability at least 1 - alpha; shapes broadcast over all but `num_classes`.

    `runner_up_votes` is the largest count of any class but the top one *among these n votes*. The votes of a runner-up
    that an earlier sample named will not do: another class may be the true second, and nothing would bound its share.

    p_A takes 0.9 alpha. Each of the K - 1 other classes is bounded above at 0.1 alpha/(K-1), so that all these bounds
    hold together and no single class has to be trusted to be the second; as the bound grows with the count, the
    largest of them is the one of `runner_up_votes`.

    With two classes the other one's share *is* 1 - p: the bound is one-vs-rest with the full alpha.
    """
    num_classes = whole("num_classes", num_classes, 2, MOST_COMPARED)
    top, runner_up, votes = standing(top_votes, runner_up_votes, n)
    top, runner_up, votes, level = broadcast(
        top_votes=top, runner_up_votes=runner_up, n=votes, alpha=levels("alpha", alpha)
    )
    if num_classes == 2:
        return one_vs_rest_bound(top, votes, level, lower)
    p_a = np.asarray(lower(top, votes, TOP_SHARE * level))
    others = np.asarray(upper(runner_up, votes, (1 - TOP_SHARE) * level / (num_classes - 1)))
    return unwrap(p_a), unwrap(np.minimum(1.0 - p_a, others))
