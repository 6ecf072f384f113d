import numpy as np
import pytest

from anisocert.evaluate import average_certified_radius, certified_accuracy

RADIUS, CORRECT = [0.0, 0.5, 1.0, 2.0], [False, True, True, False]


def test_certified_accuracy_counts_correct_answers_that_reach():
    found = certified_accuracy(RADIUS, CORRECT, [0.0, 0.5, np.nextafter(0.5, 1), 1.0, 1.5])
    assert found.tolist() == [0.5, 0.5, 0.25, 0.25, 0.0]


def test_certified_accuracy_at_one_radius():
    assert certified_accuracy(RADIUS, CORRECT, 0.75).tolist() == [0.25]


def test_certified_accuracy_never_rises_with_the_radius():
    rng = np.random.default_rng(0)
    found = certified_accuracy(rng.exponential(size=100), rng.random(100) < 0.7, np.linspace(0, 5, 50))
    assert (np.diff(found) <= 0).all()


def test_average_certified_radius():
    assert average_certified_radius(RADIUS, CORRECT) == pytest.approx(1.5 / 4)
    assert average_certified_radius(np.array(RADIUS), np.array([0, 0, 0, 0])) == 0
