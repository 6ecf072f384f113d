"""When the estimate stage looks at its tally, and how much of alpha each look may spend."""

from typing import NamedTuple

CHECKPOINTS = ((100, 0.1), (10, 0.1), (1, 0.8))
"""(divisor of n, share of alpha): the last look keeps most, so that an input that needs all votes loses little."""


class Look(NamedTuple):
    """One look at the tally: after `n` votes, with bounds at level `alpha`; alpha 0: one may only give up."""

    n: int
    alpha: float


def fixed(n: int, alpha: float, early_abstain: bool) -> tuple[Look, ...]:
    """One look after all votes; with early_abstain looks before it, too, which spend nothing: one may only give up."""
    earlier = ladder(n, ratio=2.0)[:-1] if early_abstain else ()
    return (*(Look(votes, 0.0) for votes in earlier), Look(n, alpha))


def checkpoints(n: int, alpha: float) -> tuple[Look, ...]:
    """Looks after n/100, n/10 (rounded up) and n votes, which share alpha; for small n, equal counts are one look."""
    shares: dict[int, float] = {}
    for divisor, share in CHECKPOINTS:
        votes = -(-n // divisor)
        shares[votes] = shares.get(votes, 0.0) + share
    # 0.1 and 0.8 are not binary fractions; four ulps less, and the parts never add up to more than alpha.
    return tuple(Look(votes, share * alpha * (1 - 2.0**-50)) for votes, share in shares.items())


def most_share(bound_n: int, votes: int) -> float:
    """The most of alpha that any plan with checkpoints gives to a bound from the first bound_n of all votes it counted.

    The last look alone has more than a tenth, and its bound is from all votes. Up to 10 planned votes the first two
    looks are one, after a single vote; a single planned vote has all of alpha.
    """
    early, later, last = (share for _, share in CHECKPOINTS)
    if bound_n < votes:
        return later if bound_n > 1 else early + later
    return last if votes > 1 else 1.0


def anytime(n: int, alpha: float) -> tuple[Look, ...]:
    """A ladder of looks, each with the full alpha: for bounds that hold at all of them at once."""
    return tuple(Look(votes, alpha) for votes in ladder(n, ratio=1.25))


def ladder(n: int, ratio: float) -> tuple[int, ...]:
    """Vote counts that grow by `ratio` from 32 and end with n.

    Geometric, because a look ratio times too late costs at most that factor in votes however early the stop is.
    """
    steps, votes = [], 32.0
    while votes < n:
        steps.append(round(votes))
        votes *= ratio
    return (*(step for step in steps if step < n), n)
