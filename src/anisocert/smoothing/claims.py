"""What votes can claim: whether one counting can have produced them, and the bounds and gap that follow."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from anisocert.bounds import Plan, lower
from anisocert.certificate import ABSTAIN, COUNTS
from anisocert.rounding import agrees
from anisocert.smoothing.base import Floats, Smoothing

SELECTOR: Final = ("codes", "selector_top", "selector_votes", "selector_alpha", "selector_sigma", "cap")
"""What only certificates have whose noise a selector chose."""
EVIDENCE: Final = {"selected": SELECTOR, "two-step": ("codes", "selector_top", "selector_votes", "selector_sigma")}
"""Which of it, by method. Only a selected code is proven by votes of its own, which have their part of alpha.

In a cascade so are all codes but the first, which needs no proof: see `needed_evidence`.
"""
CASCADE: Final = "cascade"


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


def needed_evidence(said: Mapping[str, Any]) -> tuple[str, ...]:
    """What a certificate rests on besides the votes for its class. said: its fields, by name."""
    if said["method"] == CASCADE:
        return SELECTOR if "," in (said["codes"] or "") else SELECTOR[:1]
    return EVIDENCE.get(said["method"], ())


def alpha_of_cap(said: Mapping[str, Any]) -> float:
    """At which the cap was judged; in a cascade, for each other class under each code that was asked before."""
    spent = float(said["selector_alpha"])
    if said["method"] != CASCADE:
        return spent
    return spent / float((said["num_classes"] - 1) * said["codes"].count(","))


def cap(noise: type[Smoothing], top: ArrayLike, votes: int, alpha: ArrayLike, sigma: float) -> Floats:
    """How far a smoothed selector names one code, of which it had `top` of its votes; 0 where that is not proven."""
    share = np.asarray(lower(top, votes, alpha))
    return noise.gap(share, 1 - share) * sigma


def level(said: Mapping[str, Any]) -> float:
    """The part of a certificate's alpha that its votes for the class were judged at."""
    return float(said["alpha"] - (said["selector_alpha"] or 0.0))


def _names_codes(codes: str, single: bool) -> bool:
    """Whether a text names distinct codes, as in 2,0."""
    parts = codes.split(",")
    well_formed = all(re.fullmatch(r"0|[1-9][0-9]{0,2}", part) for part in parts)
    return well_formed and len(parts) == (1 if single else len(set(parts)))


def wrong_capture(said: Mapping[str, Any], noise: type[Smoothing]) -> Iterator[str]:
    """Where a certificate claims more than a selector's votes give, or lacks them. said: its fields, by name."""
    needed = needed_evidence(said)
    if surplus := [name for name in SELECTOR if said[name] is not None and name not in needed]:
        yield f"has {', '.join(surplus)}, which method {said['method']} has not"
        return
    if missing := [name for name in needed if said[name] is None]:
        yield f"lacks {', '.join(missing)}, on which method {said['method']} rests"
        return
    if needed and not _names_codes(said["codes"], single=said["method"] == "selected"):
        yield f"codes is {said['codes']!r}, not {'one code' if said['method'] == 'selected' else 'distinct codes'}"
        return
    if said["method"] == CASCADE and said["bound"] != "one-vs-rest":
        yield f"has bound {said['bound']}, where a cascade needs majorities"
    if said["method"] == "two-step":
        if said["bound_k"] + said["runner_up_votes"] != said["bound_n"]:
            yield f"has {said['runner_up_votes']} votes against {said['bound_k']} of {said['bound_n']}: all others are"
        if not said["top_votes"] <= said["selector_top"] <= said["selector_votes"]:
            yield f"has {said['top_votes']} votes for its class and codes, and {said['selector_top']} for its codes"
        if said["selector_votes"] != said["votes"]:
            yield f"has {said['selector_votes']} votes of the selector, of the {said['votes']} that it takes part in"
    if said["selector_alpha"] is None:
        return
    k, n, alpha, sigma = (said[name] for name in SELECTOR[1:-1])
    if not (0 <= k <= n and n >= 1 and 0 < alpha < said["alpha"] and 0 < sigma < math.inf):
        yield f"has {k} of {n} votes of a selector at alpha {alpha!r} of {said['alpha']!r} and sigma {sigma!r}"
        return
    fresh = float(cap(noise, k, n, alpha_of_cap(said), sigma))
    if not agrees(said["cap"], fresh):
        yield f"cap is {said['cap']!r}, the selector's votes give {fresh!r}"
    if fresh == 0 and said["prediction"] != ABSTAIN:
        yield f"prediction is {said['prediction']}, but the selector's votes name no code"
