"""Whether errors of known probability explain what was seen."""

import math

ODDS = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6)  # the smaller ones for many errors, the largest for one


def errors_explain(seen: int, expected: float, attempts: int, level: float) -> bool:
    """Whether at least `seen` errors may have happened; a false no has probability `level` at most.

    attempts: how many errors are possible. expected: the sum of their probabilities, each given all that happened
    before it; which of them there are may depend on that too, as an attack asks until it succeeds. For each odds o, the
    product of o^error / (1 + p (o - 1)) has an expectation of at most 1, and so has the mean over several odds: by
    Markov's inequality it reaches 1/level with probability at most `level`. Of all probabilities with one sum, equal
    ones make the product's denominator largest, as log(1 + p (o - 1)) is concave in p: with these it alarms least.
    """
    probability = min(expected / attempts, 1.0) if attempts else 0.0
    costs = [attempts * math.log1p(probability * (odds - 1)) for odds in ODDS]
    logs = [seen * math.log(odds) - cost for odds, cost in zip(ODDS, costs, strict=True)]
    largest = max(logs)
    mean = largest + math.log(sum(math.exp(log - largest) for log in logs) / len(logs))
    return mean < math.log(1 / level)
