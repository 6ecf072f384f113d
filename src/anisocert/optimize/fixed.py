"""The same theta for every input."""

from dataclasses import dataclass

from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Query
from anisocert.optimize.base import Method, same_for_all


@dataclass(frozen=True)
class Fixed(Method):
    """The smoothing's own theta, whatever the input (Cohen et al. 2019).

    One smoothed classifier answers all inputs, so that a certificate holds whoever asks, and needs no memory.
    """

    name = "fixed"

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        return same_for_all(query.smoothing.theta, query.x)
