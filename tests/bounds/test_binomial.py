from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binomtest

from anisocert.bounds import binomial_test
from anisocert.errors import ArgumentError


@pytest.mark.parametrize("n", [1, 2, 5, 10, 101, 2000])
def test_is_the_exact_two_sided_test(n: int) -> None:
    k = np.unique(np.linspace(0, n, 40).astype(int))
    values = binomial_test(k, n)
    for count, value in zip(k, values, strict=True):
        exact = binomtest(int(count), n, 0.5).pvalue
        assert value == pytest.approx(exact, rel=1e-9)
        assert value >= exact * (1 - 1e-12)  # rounded up: abstains rather than answers


def test_false_answers_are_rare_for_a_tie(within_rate) -> None:
    votes = np.random.default_rng(6).binomial(1000, 0.5, 50_000)
    answers = binomial_test(votes, 1000) <= 0.05
    assert within_rate(answers.sum(), answers.size, 0.05)
    assert answers.mean() > 0.03


def test_scalars_ties_and_symmetry() -> None:
    assert type(binomial_test(3, 10)) is float
    assert binomial_test(5, 10) == 1.0
    assert binomial_test(10, 10) == pytest.approx(2**-9)
    assert binomial_test(2, 10) == binomial_test(8, 10)


@pytest.mark.parametrize("n", [9, 400, 2001])
def test_no_p_value_is_below_the_exact_one(n: int) -> None:
    below = 0
    for k in range((n - 1) // 2 + 1):
        below += comb(n, k)
        assert Fraction(2 * below, 2**n) <= Fraction(binomial_test(k, n))


def test_no_p_value_is_too_small_where_scipy_is_wrong() -> None:
    """At 36 of 1169 its tail is 0, which is below every alpha."""
    assert binomial_test(36, 1169) >= Fraction(2 * sum(comb(1169, i) for i in range(37)), 2**1169) > 0
    assert binomial_test(5000, 5000) == 1e-200


def test_bad_input_is_named() -> None:
    with pytest.raises(ArgumentError, match="expected k <= n, got k = 11 with n = 10"):
        binomial_test(11, 10)
    with pytest.raises(ArgumentError, match="expected n >= 1, got 0"):
        binomial_test(0, 0)
    with pytest.raises(ArgumentError, match="expected k to be integers"):
        binomial_test(0.5, 10)
