import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from anisocert.bounds import lower, upper
from anisocert.errors import AnisocertError, ArgumentError

tallies = st.integers(1, 200_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
alphas = st.floats(1e-12, 0.999)


def tail(k: int, n: int, p: Fraction) -> Fraction:
    """P(Binomial(n, p) >= k), exactly."""
    return sum((math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1)), Fraction(0))


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 0.05, 0.5, 0.9])
def test_lower_is_the_defining_root_rounded_down_in_exact_arithmetic(alpha: float) -> None:
    for n in (1, 2, 3, 7, 12):
        for k in range(1, n + 1):
            p = lower(k, n, alpha)
            assert tail(k, n, Fraction(p)) <= Fraction(alpha)
            assert tail(k, n, Fraction(p * (1 + 1e-10))) > Fraction(alpha)


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 0.05, 0.5, 0.9])
def test_upper_is_the_defining_root_rounded_up_in_exact_arithmetic(alpha: float) -> None:
    for n in (1, 2, 3, 7, 12):
        for k in range(n):
            p = upper(k, n, alpha)
            assert 1 - tail(k + 1, n, Fraction(p)) <= Fraction(alpha)
            assert 1 - tail(k + 1, n, Fraction(p * (1 - 1e-10))) > Fraction(alpha)


@pytest.mark.parametrize(
    ("k", "n"), [(50_490, 100_000), (99_990, 100_000), (100_000, 100_000), (7, 100_000), (3_456, 9_999)]
)
def test_lower_is_rounded_down_at_large_n_in_fifty_digits(k: int, n: int) -> None:
    def exceeds(p: float, alpha: float) -> bool:
        x, y = decimal.Decimal(p), 1 - decimal.Decimal(p)
        term = decimal.Decimal(math.comb(n, k)) * x**k * y ** (n - k)
        total, j = term, k
        while j < n and term > total * decimal.Decimal("1e-45"):
            term *= (n - j) * x / ((j + 1) * y)
            total, j = total + term, j + 1
        return total > decimal.Decimal(alpha)

    with decimal.localcontext(prec=50, Emin=-(10**9), Emax=10**9):
        p = lower(k, n, 0.001)
        assert not exceeds(p, 0.001)
        assert exceeds(p + (1 - p) * p * 1e-10, 0.001)


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("n", [1, 5, 30, 200])
def test_coverage_by_enumeration(n: int, alpha: float) -> None:
    k = np.arange(n + 1)
    bounds = lower(k, n, alpha)
    # The failure rate peaks just below a value that the bound can take, so these are the shares to try.
    shares = np.concatenate([np.linspace(0, 1, 201), np.nextafter(bounds, -1)[1:]])
    failing = bounds[None] > shares[:, None]
    rates = np.where(failing, binom.pmf(k, n, shares[:, None]), 0).sum(1)
    assert rates.max() <= alpha * (1 + 1e-11)
    assert rates.max() > alpha * (1 - 1e-8)  # no looser than it must be

    bounds = upper(k, n, alpha)
    shares = np.concatenate([np.linspace(0, 1, 201), np.nextafter(bounds, 2)[:-1]])
    failing = bounds[None] < shares[:, None]
    rates = np.where(failing, binom.pmf(k, n, shares[:, None]), 0).sum(1)
    assert alpha * (1 - 1e-8) < rates.max() <= alpha * (1 + 1e-11)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9, 0.999])
def test_coverage_by_simulation(share: float, within_rate) -> None:
    votes = np.random.default_rng(1).binomial(1000, share, 20_000)
    assert within_rate((lower(votes, 1000, 0.05) > share).sum(), votes.size, 0.05)
    assert within_rate((upper(votes, 1000, 0.05) < share).sum(), votes.size, 0.05)


def test_the_simulation_would_notice_a_failure_rate_twice_too_high(within_rate) -> None:
    votes = np.random.default_rng(1).binomial(1000, 0.5, 20_000)
    assert not within_rate((lower(votes, 1000, 0.1) > 0.5).sum(), votes.size, 0.05)


def test_the_numbers_of_the_usual_setting() -> None:
    assert lower(100_000, 100_000, 0.001) == pytest.approx(0.99993092, abs=5e-9)
    assert lower(50_490, 100_000, 0.001) > 0.5 > lower(50_489, 100_000, 0.001)


@given(st.integers(1, 10**6), alphas)
def test_no_votes_and_all_votes(n: int, alpha: float) -> None:
    assert lower(0, n, alpha) == 0.0
    assert upper(n, n, alpha) == 1.0
    assert lower(n, n, alpha) == pytest.approx(alpha ** (1 / n), rel=1e-11)
    assert lower(n, n, alpha) <= alpha ** (1 / n)
    assert upper(0, n, alpha) == pytest.approx(-math.expm1(math.log(alpha) / n), rel=1e-8)


@given(tallies, alphas)
def test_agrees_with_the_beta_quantile_and_its_mirror(tally: tuple[int, int], alpha: float) -> None:
    k, n = tally
    if k > 0:
        assert lower(k, n, alpha) == pytest.approx(beta.ppf(alpha, k, n - k + 1), rel=1e-9)
    assert upper(k, n, alpha) == pytest.approx(1 - lower(n - k, n, alpha), abs=1e-10)


@given(tallies, alphas)
def test_grows_with_votes_and_with_alpha(tally: tuple[int, int], alpha: float) -> None:
    k, n = tally
    assert 0 <= lower(k, n, alpha) <= upper(k, n, 1 - alpha) + 1e-12 <= 1 + 1e-12
    assert lower(k, n, alpha / 2) <= lower(k, n, alpha)
    assert upper(k, n, alpha / 2) >= upper(k, n, alpha)
    if k < n:
        assert lower(k, n, alpha) < lower(k + 1, n, alpha)
        assert upper(k, n, alpha) < upper(k + 1, n, alpha)


def test_nothing_is_claimed_where_scipy_is_wrong() -> None:
    """At 2,574 of 2,601 votes and alpha = 5e-287 its bound is 0.757; exactly, in 60 digits, 0.741."""
    assert (lower(2574, 2601, 5e-287), upper(27, 2601, 5e-287)) == (0.0, 1.0)
    assert 0.7 < lower(2574, 2601, 1e-199) < 0.9


@pytest.mark.parametrize("alpha", [1e-300, 1e-30, 1 - 1e-15])
@pytest.mark.parametrize("bound", [lower, upper])
def test_extreme_levels_and_counts_stay_in_range(bound, alpha: float) -> None:
    n = 10**9
    values = bound([0, 1, n // 2, n - 1, n], n, alpha)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()
    assert values[0] >= 0
    assert values[-1] <= 1


def test_broadcasts_and_hands_scalars_back_as_floats() -> None:
    table = lower(np.arange(4)[:, None], 10, np.array([0.001, 0.05]))
    assert table.shape == (4, 2)
    assert table[3, 1] == lower(3, 10, 0.05)
    assert type(lower(3, 10, 0.05)) is float
    assert type(upper(np.int32(3), np.int64(10), np.float32(0.05))) is float
    assert lower([3], 10, 0.05).shape == (1,)
    assert lower([], 10, 0.05).shape == (0,)


@pytest.mark.parametrize("bound", [lower, upper])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 10, 1.5), r"expected alpha in \(0, 1\), got 1.5"),
        ((1, 10, 0), r"expected alpha in \(0, 1\), got 0.0"),
        ((1, 10, 1), r"expected alpha in \(0, 1\), got 1.0"),
        ((1, 10, [0.1, math.nan]), r"expected alpha in \(0, 1\), got nan"),
        ((1, 10, "0.1"), r"expected alpha to be numbers, got '0.1'"),
        ((-1, 10, 0.1), "expected k >= 0, got -1"),
        ((11, 10, 0.1), "expected k <= n, got k = 11 with n = 10"),
        ((0, 0, 0.1), "expected n >= 1, got 0"),
        ((1.0, 10, 0.1), r"expected k to be integers, got 1.0 \(float64\)"),
        ((1, 10.0, 0.1), "expected n to be integers, got 10.0"),
        ((True, 10, 0.1), r"expected k to be integers, got True \(bool\)"),
        (([1, 2], [10, 10, 10], 0.1), r"expected shapes that broadcast together, got k \(2,\), n \(3,\), alpha \(\)"),
    ],
)
def test_bad_input_is_named(bound, arguments: tuple, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        bound(*arguments)
    assert isinstance(caught.value, AnisocertError)
