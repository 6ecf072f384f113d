import numpy as np
import pytest

from anisocert.evaluate import average_certified_radius, certified_accuracy, median_certified_radius

RADIUS, CORRECT = [0.0, 0.5, 1.0, 2.0], [False, True, True, False]


def test_certified_accuracy_counts_correct_answers_that_reach():
    found = certified_accuracy(RADIUS, CORRECT, [0.0, 0.5, np.nextafter(0.5, 1), 1.0, 1.5])
    assert found.tolist() == [0.5, 0.5, 0.25, 0.25, 0.0]


def test_certified_accuracy_at_one_radius():
    assert certified_accuracy(RADIUS, CORRECT, 0.75).tolist() == [0.25]


def test_certified_accuracy_is_its_definition():
    rng = np.random.default_rng(0)
    radius, correct, at = rng.exponential(size=100).round(1), rng.random(100) < 0.7, np.linspace(0, 5, 51)
    expected = [np.mean([c and r >= a for r, c in zip(radius, correct, strict=True)]) for a in at]
    assert certified_accuracy(radius, correct, at).tolist() == expected


def test_average_certified_radius():
    assert average_certified_radius(RADIUS, CORRECT) == pytest.approx(1.5 / 4)
    assert average_certified_radius(np.array(RADIUS), np.array([0, 0, 0, 0])) == 0


@pytest.mark.parametrize(
    ("radius", "correct", "median"),
    [
        ([1.0, 2.0, 3.0], [True, True, True], 2.0),
        ([1.0, 2.0, 3.0], [True, True, False], 1.0),
        ([1.0, 2.0, 3.0, 4.0], [True] * 4, 3.0),  # two of four reach 3
        ([1.0, 2.0, 3.0, 900.0], [True] * 4, 3.0),
    ],
)
def test_median_is_the_largest_radius_that_half_of_the_inputs_reach(radius, correct, median):
    assert median_certified_radius(radius, correct) == median
    assert certified_accuracy(radius, correct, median)[0] >= 0.5
    assert certified_accuracy(radius, correct, np.nextafter(median, np.inf))[0] < 0.5


def test_the_median_is_0_where_less_than_half_is_correct():
    assert median_certified_radius([5.0, 5.0, 5.0], [False, False, True]) == 0
