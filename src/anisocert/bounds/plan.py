"""How many votes an input gets, when to stop, and which bound turns its votes into (p_A, p_B)."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from anisocert.bounds import _forecast as forecast
from anisocert.bounds import betting, clopper_pearson, schedule
from anisocert.bounds._arrays import FloatOrArray, Integers, at_most, broadcast, levels, real, standing, unwrap, whole
from anisocert.bounds.bound import BOUNDS, ByName
from anisocert.bounds.schedule import Look
from anisocert.errors import AnisocertWarning, ArgumentError, expect_one_of

Stop = Literal["checkpoints", "betting"]
MOST_COMPARED = 10**7  # classes: more than inputs.MOST_CLASSES, as a formula makes no tables for them

MOST_VOTES = 10**9
"""The bounds' rounding was measured up to here; products of two such counts fit an int64."""

WRONG_GIVE_UP = 1e-5
"""Largest probability with which an input that would have been certified is given up on, over all looks together."""


@dataclass(frozen=True)
class Plan:
    """The votes of one input: n0 to choose its class, then up to n fresh ones to bound that class's share.

    Args:
        n0: votes in the selection stage.
        n: the largest number of votes in the estimate stage.
        alpha: probability, per input, with which the certificate may be wrong, whatever the rest of the plan says.
        bound: "one-vs-rest" takes p_B = 1 - p_A; "two-class" bounds every other class as well and certifies larger
            regions; or a Bound, by whose name the plan then calls it.
        stop: the estimate stage looks at its tally at the vote counts in `looks` and may stop there. None: all n votes.
            "checkpoints": at n/100, n/10 and n, which share alpha. "betting": at many looks, with bounds that hold at
            all of them at once.
        target_radius: stop as soon as "is the radius at least this?" is decided. With stop=None it means
            stop="betting".
        early_abstain: give up as soon as certifying, or reaching the target, has become hopeless (`optimistic`). Giving
            up is always safe. Sequential plans always do; early_abstain=True adds it to a fixed n.
        tolerance: without a target, a sequential plan stops at a look once the gap is within this fraction of the gap
            that all n votes would give at the same vote shares (`projected`).
    """

    n0: int = 100
    n: int = 100_000
    alpha: float = 1e-3
    bound: ByName = ByName()  # noqa: RUF009  # what it holds is in the plan
    stop: Stop | None = None
    target_radius: float | None = None
    early_abstain: bool = False
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        checked = {
            "n0": whole("n0", self.n0, 1, MOST_VOTES),
            "n": whole("n", self.n, 1, MOST_VOTES),
            "alpha": real("alpha", self.alpha),
            "tolerance": real("tolerance", self.tolerance),
        }
        if not 0 < checked["alpha"] < 1:
            raise ArgumentError(f"expected alpha in (0, 1), got {self.alpha}")
        if not 0 <= checked["tolerance"] < 1:
            raise ArgumentError(f"expected tolerance in [0, 1), got {self.tolerance}")
        if self.stop is not None:
            expect_one_of("stop", self.stop, get_args(Stop))
        if not isinstance(self.early_abstain, bool):
            raise ArgumentError(f"expected early_abstain to be True or False, got {self.early_abstain!r}")
        for name, value in checked.items():  # numpy numbers become Python's, so that a plan can be written as JSON
            object.__setattr__(self, name, value)
        if self.target_radius is not None:
            target = real("target_radius", self.target_radius)
            if target <= 0:
                raise ArgumentError(f"expected target_radius > 0, got {self.target_radius}")
            object.__setattr__(self, "target_radius", target)
            # A fixed n decides nothing early: asking for a target is asking for a sequential plan.
            object.__setattr__(self, "stop", self.stop or "betting")

    @property
    def gives_up(self) -> bool:
        """Whether hopeless inputs are given up at looks before the last."""
        return self.early_abstain or self.stop is not None

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """The looks at the tally in order; the last is after n votes. A look with alpha 0 may only give up."""
        if self.stop == "checkpoints":
            return schedule.checkpoints(self.n, self.alpha)
        if self.stop == "betting":
            return schedule.anytime(self.n, self.alpha)
        return schedule.fixed(self.n, self.alpha, self.early_abstain)

    def estimate(
        self, top_votes: ArrayLike, runner_up_votes: ArrayLike, votes: ArrayLike, num_classes: int, alpha: ArrayLike
    ) -> tuple[FloatOrArray, FloatOrArray]:
        """(p_A, p_B) from the tally at a look, at that look's alpha; (0, 1) where alpha <= 0. Shapes broadcast.

        top_votes: votes for the class that the selection stage chose; runner_up_votes: largest count of another class.
        """
        num_classes = whole("num_classes", num_classes, 2, MOST_COMPARED)
        top, runner_up, count = standing(top_votes, runner_up_votes, votes)
        top, runner_up, count, level = broadcast(
            top_votes=top, runner_up_votes=runner_up, votes=count, alpha=levels("alpha", alpha, or_none=True)
        )
        p_a, p_b = np.zeros(level.shape), np.ones(level.shape)
        spends = level > 0
        family = betting if self.stop == "betting" else clopper_pearson
        p_a[spends], p_b[spends] = BOUNDS[self.bound].estimate(
            top[spends], runner_up[spends], count[spends], num_classes, level[spends], family
        )
        return unwrap(p_a), unwrap(p_b)

    def projected(
        self,
        top_votes: ArrayLike,
        runner_up_votes: ArrayLike,
        votes: ArrayLike,
        num_classes: int,
        alpha: ArrayLike | None = None,
        unseen: int | Integers = 0,
    ) -> tuple[FloatOrArray, FloatOrArray]:
        """(p_A, p_B) that the last look would give at the present vote shares; shapes broadcast.

        alpha: the last look's, if it differs between inputs. unseen: extra votes, for no class; with one of them, a
        few unanimous votes do not promise what n unanimous votes would give.
        """
        top, runner_up, count = standing(top_votes, runner_up_votes, votes)
        top, runner_up = forecast.same_shares(top, runner_up, count + unseen, self.n)
        return self.estimate(top, runner_up, self.n, num_classes, self.looks[-1].alpha if alpha is None else alpha)

    def optimistic(
        self,
        top_votes: ArrayLike,
        runner_up_votes: ArrayLike,
        votes: ArrayLike,
        num_classes: int,
        alpha: ArrayLike | None = None,
    ) -> tuple[FloatOrArray, FloatOrArray]:
        """(p_A, p_B) that the last look will not surpass, except with probability `WRONG_GIVE_UP` over all looks.

        If even these certify nothing, or miss the target, more votes are a waste. Shapes broadcast; votes <= n. alpha:
        the last look's, if it differs between inputs.
        """
        num_classes = whole("num_classes", num_classes, 2, MOST_COMPARED)
        top, runner_up, count = standing(top_votes, runner_up_votes, votes)
        at_most("votes", count, "the plan's n", np.full_like(count, self.n))
        failure = WRONG_GIVE_UP / len(self.looks)
        top, runner_up = forecast.best_case(top, runner_up, count, self.n, num_classes, failure)
        return self.estimate(top, runner_up, self.n, num_classes, self.looks[-1].alpha if alpha is None else alpha)

    def best_case(self, num_classes: int) -> tuple[float, float]:
        """(p_A, p_B) if all n votes agree: no input can do better."""
        return self.estimate(self.n, 0, self.n, num_classes, self.looks[-1].alpha)

    def warn_if_hopeless(self, num_classes: int) -> None:
        """Warn, before any work, if n votes can never certify: p_A <= p_B even if all of them agree."""
        p_a, p_b = self.best_case(num_classes)
        if p_a > p_b:
            return
        low, enough = self.n, MOST_VOTES + 1  # one more than is allowed, where no number of votes is enough
        while enough - low > 1:
            n = (low + enough) // 2
            low, enough = (n, enough) if np.less_equal(*replace(self, n=n).best_case(num_classes)) else (low, n)
        requirement = f"n >= {enough} for" if enough <= MOST_VOTES else "more than"
        warnings.warn(
            f"expected {requirement} alpha = {self.alpha}, bound = {self.bound!r}, stop = {self.stop!r}, "
            f"got n = {self.n}: even if all votes agree p_a = {p_a:.4f} does not exceed p_b = {p_b:.4f}, "
            "and every input will abstain",
            AnisocertWarning,
            stacklevel=2,
        )
