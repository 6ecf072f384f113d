from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincc, logsumexp, roots_legendre

from anisocert.bounds import betting, clopper_pearson
from anisocert.errors import ArgumentError

HORIZON = 300
NODES, WEIGHTS = roots_legendre(400)
tallies = st.integers(1, 200_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
alphas = st.floats(1e-12, 0.9)


@cache
def table(bound, alpha: float) -> np.ndarray:
    """bound(k, n, alpha) for every 0 <= k <= n <= HORIZON, `HORIZON+1 x HORIZON+1` at [n, k]; row 0 claims nothing."""
    n, k = np.tril_indices(HORIZON + 1)
    values = np.zeros((HORIZON + 1, HORIZON + 1))
    values[n[1:], k[1:]] = bound(k[1:], n[1:], alpha)
    return values


def chance_of_ever_failing(lower: np.ndarray, share: float) -> float:
    """Exact probability that lower[n, k_n] > share at any n up to the horizon; mass in a failing cell stays there."""
    mass, failed = np.zeros(HORIZON + 1), 0.0
    mass[0] = 1.0
    for n in range(1, HORIZON + 1):
        mass = (1 - share) * mass + share * np.concatenate([[0.0], mass[:-1]])
        fails = lower[n] > share
        failed += mass[fails].sum()
        mass[fails] = 0
    return failed


@pytest.fixture(scope="module")
def lower_table() -> np.ndarray:
    return table(betting.lower, 0.05)


def wealth_by_quadrature(k: int, n: int, m: float) -> float:
    """log of the mean likelihood ratio over q ~ Beta(1/2, 1/2) given q > m; q = sin(t)^2 makes that prior flat in t."""
    start, end = np.arcsin(np.sqrt(m)), np.pi / 2
    t = start + (end - start) * (NODES + 1) / 2
    log_ratio = 2 * k * np.log(np.sin(t)) + 2 * (n - k) * np.log(np.cos(t)) - k * np.log(m) - (n - k) * np.log1p(-m)
    return float(logsumexp(log_ratio, b=WEIGHTS / 2))


@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 50), (3, 10), (10, 10), (70, 100), (999, 1000), (5100, 10_000)])
@pytest.mark.parametrize("fraction", [0.3, 0.9, 0.97])
def test_wealth_is_the_mean_likelihood_ratio(k: int, n: int, fraction: float) -> None:
    m = fraction * k / n
    closed = betting.log_wealth(np.array([k]), np.array([n]), np.array([m]))[0]
    assert closed == pytest.approx(wealth_by_quadrature(k, n, m), rel=1e-9, abs=1e-9)


@given(tallies, alphas)
def test_the_bound_is_where_wealth_reaches_one_over_alpha(tally: tuple[int, int], alpha: float) -> None:
    k, n = tally
    m = betting.lower(k, n, alpha)
    if k == 0:
        assert m == 0.0
        return
    assert 0 < m < k / n
    at, beyond = betting.log_wealth(np.full(2, k), np.full(2, n), np.array([m, m + m * (1 - m) * 1e-6]))
    assert at >= -np.log(alpha)
    assert beyond < -np.log(alpha)


@given(tallies)
def test_wealth_falls_up_to_the_vote_share_and_is_at_most_one_there(tally: tuple[int, int]) -> None:
    k, n = tally
    if 0 < k < n:
        m = np.linspace(0, k / n, 300)[1:]
        wealth = betting.log_wealth(np.full(m.size, k), np.full(m.size, n), m)
        assert (np.diff(wealth) < 1e-9).all()
        assert wealth[-1] <= 1e-9


def test_never_fails_more_often_than_alpha_however_often_one_looks(lower_table: np.ndarray) -> None:
    values = np.unique(lower_table[lower_table > 0])
    # Just below a value that the bound can take is where it fails most; with plain shares beside them.
    shares = np.concatenate([np.linspace(0.01, 0.99, 60), np.nextafter(values[:: values.size // 100], 0)])
    rates = [chance_of_ever_failing(lower_table, share) for share in shares]
    assert max(rates) <= 0.05
    assert max(rates) > 0.02  # not vacuous


def test_looking_at_every_vote_breaks_a_bound_for_fixed_n() -> None:
    assert chance_of_ever_failing(table(clopper_pearson.lower, 0.05), 0.5) > 0.15


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_coverage_by_simulation_of_both_sides_with_running_extremes(
    share: float, lower_table: np.ndarray, within_rate
) -> None:
    runs = 10_000
    votes = (np.random.default_rng(5).random((runs, HORIZON)) < share).cumsum(1)
    n = np.arange(1, HORIZON + 1)
    assert within_rate((lower_table[n, votes].max(1) > share).sum(), runs, 0.05)
    upper_table = table(betting.upper, 0.05)
    assert within_rate((upper_table[n, votes].min(1) < share).sum(), runs, 0.05)
    loose = table(betting.lower, 0.4)
    assert not within_rate((loose[n, votes].max(1) > share).sum(), runs, 0.05)  # the test would notice


@given(tallies, alphas)
def test_upper_mirrors_lower(tally: tuple[int, int], alpha: float) -> None:
    k, n = tally
    assert Fraction(betting.upper(k, n, alpha)) >= 1 - Fraction(betting.lower(n - k, n, alpha))  # to the last bit
    assert betting.upper(k, n, alpha) == pytest.approx(1 - betting.lower(n - k, n, alpha), abs=1e-15)
    assert betting.upper(n, n, alpha) == 1.0


@given(tallies, alphas)
def test_costs_little_against_the_fixed_n_bound_and_never_beats_it(tally: tuple[int, int], alpha: float) -> None:
    k, n = tally
    exact = clopper_pearson.lower(k, n, alpha)
    assert betting.lower(k, n, alpha) <= exact + 1e-12
    # What looking always costs: at most about log(n)/2 + 1 more in log(1/alpha).
    assert betting.lower(k, n, alpha) >= clopper_pearson.lower(k, n, alpha / (10 * n)) - 1e-12


@pytest.mark.parametrize("n", [10**5, 10**7, 10**9])
def test_is_rounded_down_at_large_n_in_forty_digits(n: int) -> None:
    """Logs of size n cancel in the wealth: float64 leaves an error of 2e-6 at the most votes."""
    k = np.linspace(0.02, 0.98, 49) * n // 1
    found = betting.lower(k.astype(int), n, 0.001)
    with mpmath.workdps(40):
        for votes, m in zip(map(int, k), found, strict=True):
            a, b, share = mpmath.mpf(votes) + 0.5, mpmath.mpf(n - votes) + 0.5, mpmath.mpf(float(m))
            beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
            likelihood = beta - votes * mpmath.log(share) - (n - votes) * mpmath.log(1 - share)
            prior = mpmath.acos(mpmath.sqrt(share)) * 2  # pi times the arcsine law's tail
            tail = betaincc(float(a), float(b), float(m))  # near 1: to float64 digits
            assert likelihood + mpmath.log(tail) - mpmath.log(prior) >= mpmath.log(1000)


@given(tallies, alphas)
def test_grows_with_votes_and_with_alpha(tally: tuple[int, int], alpha: float) -> None:
    k, n = tally
    assert betting.lower(k, n, alpha / 2) <= betting.lower(k, n, alpha)
    if k < n:
        assert betting.lower(k, n, alpha) < betting.lower(k + 1, n, alpha)


@pytest.mark.parametrize("alpha", [1e-300, 1e-3, 1 - 1e-12])
def test_extreme_levels_and_counts_stay_in_range(alpha: float) -> None:
    n = 10**9
    values = betting.lower([0, 1, n // 2, n - 1, n], n, alpha)
    assert np.isfinite(values).all()
    assert (np.diff(values) > 0).all()
    assert values[0] == 0
    assert values[-1] < 1


def test_broadcasts_and_hands_scalars_back_as_floats() -> None:
    grid = betting.lower(np.arange(4)[:, None], 10, np.array([0.001, 0.05]))
    assert grid.shape == (4, 2)
    assert grid[3, 1] == betting.lower(3, 10, 0.05)
    assert type(betting.lower(3, 10, 0.05)) is type(betting.upper(3, 10, 0.05)) is float
    assert betting.upper([], 10, 0.05).shape == (0,)


@pytest.mark.parametrize("bound", [betting.lower, betting.upper])
def test_bad_input_is_named(bound) -> None:
    with pytest.raises(ArgumentError, match=r"expected alpha in \(0, 1\), got nan"):
        bound(1, 10, float("nan"))
    with pytest.raises(ArgumentError, match="expected k <= n, got k = 11 with n = 10"):
        bound(11, 10, 0.1)
