"""What chunks of a run cost in rows of network calls, padding included: for forecasts, and for bars that move."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from anisocert.bounds import Plan
from anisocert.engine import Network
from anisocert.optimize import Method

USUAL = 5.0  # how much longer a row with gradients takes than a vote, until that has been seen
Advance = Callable[[int, float], None]
"""Called with rows that a network evaluated, and with how many inputs' share of the work that was."""


@dataclass(frozen=True)
class Cost:
    """Rows of votes, and rows with gradients."""

    votes: int
    gradients: int


def cost_of(method: Method, plan: Plan, network: Network, inputs: int) -> Cost:
    """The cost of a chunk of so many inputs, in a network that is fitted."""
    assert network.numerics.rows is not None
    rows, group = network.numerics.rows, method.group(network, plan)
    pilots = method.pilot_votes(plan, network.model)
    calls = sum(math.ceil(inputs * votes / rows) for votes in (pilots, plan.n0, plan.n))
    calls += 1 + (pilots > 0)  # the last one looks for state; pilots come in at least two rounds
    return Cost(calls * rows, math.ceil(inputs / group) * group * method.evaluations(plan))


class Meter:
    """Turns rows as they are evaluated into inputs done, by what a chunk should take in all."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance
        self._rows, self._seconds = {False: 0, True: 0}, {False: 0.0, True: 0.0}
        self._since, self._left, self._each = time.monotonic(), 0.0, 0.0
        self._worth = USUAL

    def begin(self, expected: Cost, inputs: int) -> None:
        """A chunk begins."""
        if all(self._rows.values()):
            per_row = {kind: self._seconds[kind] / self._rows[kind] for kind in self._rows}
            self._worth = max(1.0, per_row[True] / max(per_row[False], 1e-12))
        self._each = inputs / (expected.votes + self._worth * expected.gradients)
        self._left, self._since = 0.99 * inputs, time.monotonic()

    def __call__(self, rows: int, gradients: bool) -> None:
        """Rows were evaluated: see engine.OnRows."""
        now = time.monotonic()
        self._rows[gradients] += rows
        self._seconds[gradients] += now - self._since
        share = min(self._left, rows * self._each * (self._worth if gradients else 1.0))
        self._left, self._since = self._left - share, now
        self.advance(rows, share)
