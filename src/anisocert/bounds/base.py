"""What a bound is: from a tally to (p_A, p_B)."""

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from numpy.typing import ArrayLike

from anisocert.bounds._arrays import FloatOrArray, Floats, Integers


class OneSided(Protocol):
    """A one-sided confidence bound of a share, such as `clopper_pearson.lower` or `betting.lower`."""

    def __call__(self, k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatOrArray:
        """Bound for k of n votes that fails with probability at most alpha."""


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
    ) -> tuple[Floats, Floats]:
        """(p_A, p_B), both right with probability at least 1 - alpha. Arrays of one shape, checked by the plan.

        top: votes for the class that other votes chose; runner_up: the largest count of any other class *among these
        n*. The votes of a runner-up that an earlier sample named will not do: another class may be the true second, and
        nothing would bound its share.
        """
