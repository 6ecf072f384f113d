"""Whether errors explain what was seen."""

import math

import numpy as np

from anisocert.bounds import errors_explain
from anisocert.bounds.explaining import ODDS


def test_what_errors_explain(within_rate):
    """Never a false alarm more often than the level, although the number of questions depends on the answers."""
    assert errors_explain(0, 0.0, 0, 1e-3)
    assert not errors_explain(1, 1e-6, 1, 1e-3)
    assert errors_explain(1, 0.1, 10, 1e-3)
    assert not errors_explain(10, 1.0, 100, 1e-3)
    generator, alarms, runs = np.random.default_rng(0), 0, 4000
    for _ in range(runs):
        seen, asked = 0, 0
        while asked < 200 and seen < 6:  # stops at a moment that suits an alarm
            seen += generator.random() < 0.02
            asked += 1
        alarms += not errors_explain(seen, 0.02 * asked, asked, 0.05)
    assert within_rate(alarms, runs, 0.05)
    assert alarms > 0


def test_the_sum_of_probabilities_alarms_no_more_than_each_of_them():
    """The bound of each probability by itself, of which the sum's is never the smaller."""
    generator = np.random.default_rng(1)
    for _ in range(200):
        p = 10 ** generator.uniform(-5, -1, generator.integers(1, 60))
        own = [sum(math.log1p(one * (odds - 1)) for one in p) for odds in ODDS]
        for seen in range(1, 8):
            alarms = math.log(np.mean([odds**seen * math.exp(-cost) for odds, cost in zip(ODDS, own, strict=True)]))
            if alarms < math.log(1e3):
                assert errors_explain(seen, float(p.sum()), len(p), 1e-3)
