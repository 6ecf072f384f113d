"""Whether errors of known probability explain what was seen."""

import math
from collections.abc import Sequence

ODDS = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6)  # the smaller ones for many errors, the largest for one


def explained(seen: int, probabilities: Sequence[float], level: float) -> bool:
    """Whether at least `seen` errors may have happened; a false no has probability `level` at most.

    probabilities: of each possible error, given all that happened before it; which of them there are may depend on
    that too, as an attack asks until it succeeds. For each odds o, the product of o^error / (1 + p (o - 1)) has an
    expectation of at most 1, and so has the mean over several odds: by Markov's inequality it reaches 1/level with
    probability at most `level`.
    """
    costs = [sum(math.log1p(min(p, 1.0) * (odds - 1)) for p in probabilities) for odds in ODDS]
    logs = [seen * math.log(odds) - cost for odds, cost in zip(ODDS, costs, strict=True)]
    most = max(logs)
    mean = most + math.log(sum(math.exp(one - most) for one in logs) / len(logs))
    return mean < math.log(1 / level)
