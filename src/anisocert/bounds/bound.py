"""Which bound turns a tally into (p_A, p_B), by name. A new one is a file, and its place in BOUNDS or in a Plan."""

from typing import Final

import numpy as np

from anisocert.bounds._arrays import Floats, Integers
from anisocert.bounds.base import Bound, Family
from anisocert.errors import ArgumentError, expect_one_of

TOP_SHARE = 0.9
"""Part of alpha spent on p_A by the two-class bound: the radius depends far more on p_A than on p_B."""


class OneVsRest(Bound):
    """p_B = 1 - p_A: what the field reports (Cohen et al. 2019).

    The subtraction needs no rounding: for p_A >= 1/2 it is exact in floating point, below that p_B > p_A abstains.
    """

    name = "one-vs-rest"

    def estimate(
        self, top: Integers, runner_up: Integers, n: Integers, num_classes: int, alpha: Floats, family: Family
    ) -> tuple[Floats, Floats]:
        """See Bound."""
        p_a: Floats = family.lower(top, n, alpha)
        return p_a, 1.0 - p_a


class TwoClass(Bound):
    """Every other class is bounded as well, which certifies larger regions.

    p_A takes 0.9 alpha. Each of the K - 1 other classes is bounded above at 0.1 alpha/(K-1), so that all these bounds
    hold together and no single class has to be trusted to be the second; as the bound grows with the count, the
    largest of them is the one of `runner_up`.

    With two classes the other one's share *is* 1 - p: the bound is one-vs-rest with the full alpha.
    """

    name = "two-class"

    def estimate(
        self, top: Integers, runner_up: Integers, n: Integers, num_classes: int, alpha: Floats, family: Family
    ) -> tuple[Floats, Floats]:
        """See Bound."""
        if num_classes == 2:
            return BOUNDS["one-vs-rest"].estimate(top, runner_up, n, num_classes, alpha, family)
        p_a: Floats = family.lower(top, n, TOP_SHARE * alpha)
        p_b = family.upper(runner_up, n, (1 - TOP_SHARE) * alpha / (num_classes - 1))
        return p_a, np.minimum(1.0 - p_a, p_b)


BOUNDS: Final[dict[str, Bound]] = {bound.name: bound for bound in (OneVsRest(), TwoClass())}


class ByName:
    """A field that is given a bound or the name of one, and is the name: records and comparisons see nothing else."""

    def __get__(self, plan: object, owner: type) -> str:
        return "one-vs-rest" if plan is None else str(vars(plan)["bound"])

    def __set__(self, plan: object, bound: str | Bound) -> None:
        vars(plan)["bound"] = _name(bound)


def _name(bound: str | Bound) -> str:
    """The name by which BOUNDS knows a bound, from now on where it is given itself."""
    if not isinstance(bound, Bound):
        expect_one_of("bound", bound, BOUNDS)
        return bound
    name = getattr(bound, "name", None)
    if not isinstance(name, str) or not name:
        raise ArgumentError(f'expected a name in bound {type(bound).__qualname__}, as in name = "mine", got {name!r}')
    if _told(holder := BOUNDS.get(name, bound)) != _told(bound):  # certificates tell a bound by its name alone
        raise ArgumentError(f"expected a new name for bound {_told(bound)}, got {name!r}, which is {_told(holder)}")
    BOUNDS[name] = bound  # the same one may be defined again, as notebooks do
    return name


def _told(bound: Bound) -> tuple[str, str, dict[str, object]]:
    return type(bound).__module__, type(bound).__qualname__, vars(bound)
