"""The same theta for every input."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Network
from anisocert.optimize.base import Method, same_for_all
from anisocert.smoothing import Smoothing


@dataclass(frozen=True)
class Fixed(Method):
    """The smoothing's own theta, whatever the input (Cohen et al. 2019)."""

    name = "fixed"

    def choose(
        self, network: Network, x: Tensor, ids: Sequence[int], smoothing: Smoothing, plan: Plan, seed: int
    ) -> Tensor:
        """See Method."""
        return same_for_all(smoothing.theta, x)
