"""Which bound turns a tally into (p_A, p_B), by name. A new one is a class, and its place in BOUNDS or in a Plan."""

from abc import ABC, abstractmethod
from typing import ClassVar, Final, Protocol

from anisocert.bounds._arrays import FloatOrArray, Floats, Integers
from anisocert.bounds.two_class import OneSided, one_vs_rest_bound, two_class_bound
from anisocert.errors import ArgumentError, expect_one_of


class Family(Protocol):
    """One-sided bounds of a share: the modules `clopper_pearson` and `betting`."""

    lower: OneSided
    upper: OneSided


class Bound(ABC):
    """From votes to a share that the top class surely has, and one that no other class surely exceeds."""

    name: ClassVar[str]

    @abstractmethod
    def estimate(
        self, top: Integers, runner_up: Integers, n: Integers, num_classes: int, alpha: Floats, family: Family
    ) -> tuple[FloatOrArray, FloatOrArray]:
        """(p_A, p_B), both right with probability at least 1 - alpha. Arrays of one shape.

        top: votes for the class that other votes chose; runner_up: the largest count of any other class among these n.
        """


class OneVsRest(Bound):
    """p_B = 1 - p_A: what the field reports (Cohen et al. 2019)."""

    name = "one-vs-rest"

    def estimate(
        self, top: Integers, runner_up: Integers, n: Integers, num_classes: int, alpha: Floats, family: Family
    ) -> tuple[FloatOrArray, FloatOrArray]:
        """See Bound."""
        return one_vs_rest_bound(top, n, alpha, family.lower)


class TwoClass(Bound):
    """Every other class is bounded as well, which certifies larger regions."""

    name = "two-class"

    def estimate(
        self, top: Integers, runner_up: Integers, n: Integers, num_classes: int, alpha: Floats, family: Family
    ) -> tuple[FloatOrArray, FloatOrArray]:
        """See Bound."""
        return two_class_bound(top, runner_up, n, num_classes, alpha, family.lower, family.upper)


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
    if _told(known := BOUNDS.get(name, bound)) != _told(bound):  # certificates tell a bound by its name alone
        raise ArgumentError(f"expected a new name for bound {_told(bound)}, got {name!r}, which is {_told(known)}")
    BOUNDS[name] = bound  # the same one may be defined again, as notebooks do
    return name


def _told(bound: Bound) -> tuple[str, str, dict[str, object]]:
    return type(bound).__module__, type(bound).__qualname__, vars(bound)
