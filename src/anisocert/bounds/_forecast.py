"""Where a tally may stand once all n votes are in, from where it stands now. Decides effort, never a certificate."""

import numpy as np

from anisocert.bounds import clopper_pearson
from anisocert.bounds._arrays import Floats, Integers


def same_shares(top: Integers, runner_up: Integers, votes: Integers, n: int) -> tuple[Integers, Integers]:
    """(top, runner-up) counts after n votes at the present shares, rounded down and up. All of one shape."""
    return top * n // votes, -(-runner_up * n // votes)


def best_case(
    top: Integers, runner_up: Integers, votes: Integers, n: int, num_classes: int, failure: float
) -> tuple[Integers, Integers]:
    """(top, runner-up) counts after n votes, not surpassed except with probability `failure`. All of one shape.

    The top class is granted the largest share still plausible and then luck in the rest of the votes, the runner-up the
    smallest plausible share and bad luck.
    """
    level = failure / 4  # two shares and two runs of luck
    rest = n - votes
    best_share = np.asarray(clopper_pearson.upper(top, votes, level))
    best_top = top + np.minimum(_most(rest, best_share, level), rest)
    # Which class is the runner-up was learnt from the same votes, so all K - 1 must be covered. The final runner-up has
    # at least the final votes of the present one.
    level /= num_classes - 1
    worst_share = np.asarray(clopper_pearson.lower(runner_up, votes, level))
    fewest = np.maximum(rest - _most(rest, 1 - worst_share, level), 0)
    return best_top, np.minimum(runner_up + fewest, n - best_top)


def _most(n: Integers, p: Floats, level: float) -> Integers:
    """A count that Binomial(n, p) exceeds with probability at most `level` (Bernstein's inequality)."""
    surprise = -np.log(level)
    most: Floats = n * p + np.sqrt(2 * n * p * (1 - p) * surprise) + surprise / 3
    return most.astype(np.int64)
