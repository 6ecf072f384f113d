from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from anisocert.bounds import high_probability_accuracy, lifetime_alpha
from anisocert.errors import ArgumentError


def failure_rate(claim, total: int, alpha: float, rho: float) -> float:
    """Exact worst case: every certificate is independently false with probability alpha, and counted as correct."""
    false_ones = np.arange(total + 1)
    return float(
        binom.pmf(false_ones, total, alpha)[claim(total, total, alpha, rho) > 1 - false_ones / total + 1e-12].sum()
    )


@pytest.mark.parametrize("rho", [0.001, 0.05, 0.2])
@pytest.mark.parametrize(("total", "alpha"), [(1, 0.1), (50, 0.001), (500, 0.001), (500, 0.05), (10_000, 0.01)])
def test_fails_no_more_often_than_rho(total: int, alpha: float, rho: float) -> None:
    assert failure_rate(high_probability_accuracy, total, alpha, rho) <= rho


def test_the_published_formula_without_the_two_fails_too_often() -> None:
    def published(correct: int, total: int, alpha: float, rho: float) -> float:
        surprise = -np.log(rho) / total
        return correct / total - alpha - np.sqrt(alpha * (1 - alpha) * surprise) - surprise / 3

    assert failure_rate(published, 10_000, 0.05, 0.001) > 0.003


def test_fails_no_more_often_than_rho_by_simulation(within_rate) -> None:
    certified, total, alpha, rho = 430, 500, 0.05, 0.05
    false_ones = (np.random.default_rng(7).random((20_000, certified)) < alpha).sum(1)
    claim = high_probability_accuracy(certified, total, alpha, rho)
    assert within_rate((claim > (certified - false_ones) / total).sum(), false_ones.size, rho)


def test_gives_away_the_exact_quantile_and_no_more() -> None:
    total, alpha, rho = np.array([1, 10, 500, 10_000]), 0.01, 0.001
    given_away = total - np.rint(high_probability_accuracy(total, total, alpha, rho) * total)
    assert (given_away == binom.ppf(1 - rho, total, alpha)).all()


def test_nothing_is_claimed_where_scipy_is_wrong() -> None:
    """That more than 611 of 650 certificates are false has probability above 6e-265; scipy says 0."""
    assert high_probability_accuracy(650, 650, 0.3, 7e-286) == 0
    assert high_probability_accuracy(650, 650, 0.3, 1e-199) > 0


@given(st.integers(1, 20_000), st.floats(1e-6, 0.3), st.floats(1e-6, 0.5), st.floats(0, 1))
def test_it_is_neither_negative_nor_above_what_was_counted(total: int, alpha: float, rho: float, share: float) -> None:
    correct = int(share * total)
    found = high_probability_accuracy(correct, total, alpha, rho)
    assert 0 <= found <= correct / total
    assert type(found) is float


@given(st.floats(1e-12, 0.999), st.integers(1, 3000))
def test_a_lifetime_never_spends_more_than_alpha(alpha: float, count: int) -> None:
    parts = lifetime_alpha(alpha, np.arange(1, count + 1))
    assert parts[0] == pytest.approx(alpha / 2, rel=1e-12)
    total = sum(map(Fraction, parts.tolist()))
    assert total < Fraction(alpha)
    assert float(total) == pytest.approx(alpha * count / (count + 1), rel=1e-12)


def test_bad_input_is_named() -> None:
    with pytest.raises(ArgumentError, match="expected correct <= total, got correct = 6 with total = 5"):
        high_probability_accuracy(6, 5, 0.1, 0.1)
    with pytest.raises(ArgumentError, match=r"expected rho in \(0, 1\), got 0.0"):
        high_probability_accuracy(5, 5, 0.1, 0)
    with pytest.raises(ArgumentError, match="expected total >= 1, got 0"):
        high_probability_accuracy(0, 0, 0.1, 0.1)


def test_lifetime_bad_input_is_named() -> None:
    with pytest.raises(ArgumentError, match="expected i >= 1, got 0"):
        lifetime_alpha(0.1, 0)
    with pytest.raises(ArgumentError, match=r"expected alpha in \(0, 1\), got 2.0"):
        lifetime_alpha(2, 1)


@pytest.mark.parametrize("alpha", [1e-3, 0.01, 2.3e-300])
@pytest.mark.parametrize("i", [1, 3, 10**9, 2**53])
def test_no_part_of_a_lifetime_is_rounded_up(alpha: float, i: int) -> None:
    assert Fraction(float(lifetime_alpha(alpha, i))) <= Fraction(alpha) / (i * (i + 1))
