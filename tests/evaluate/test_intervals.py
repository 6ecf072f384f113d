import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom, binomtest

from anisocert.errors import ArgumentError
from anisocert.evaluate import bootstrap, median_interval, wilson


@pytest.mark.parametrize(("count", "total"), [(0, 10), (1, 10), (5, 10), (10, 10), (417, 500), (9_999, 10_000)])
def test_wilson_is_scipys(count, total):
    expected = binomtest(count, total).proportion_ci(0.95, method="wilson")
    low, high = wilson(count, total)
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_by_hand():
    low, high = wilson([5], 10, 0.95)  # z = 1.96: (0.5 -+ 1.96 sqrt(0.025 + 0.0096)/...)
    assert (low[0], high[0]) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_wilson_holds_what_was_seen():
    low, high = wilson(np.arange(11), 10)
    seen = np.arange(11) / 10
    assert ((low <= seen) & (seen <= high)).all()
    assert (low[0], high[-1]) == (0, 1)


def test_bootstrap_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for seed in range(300):
        low, high = bootstrap(rng.exponential(size=200), 0.9, resamples=300, seed=seed)
        hits += low <= 1 <= high
    assert 0.83 * 300 < hits < 0.95 * 300  # a little below 0.9 is known of skewed data


def test_bootstrap_does_not_depend_on_how_the_draws_are_cut(monkeypatch):
    values = np.random.default_rng(0).random(50)
    whole = bootstrap(values, resamples=100)
    monkeypatch.setattr("anisocert.evaluate.intervals._AT_ONCE", 70)
    assert bootstrap(values, resamples=100) == whole


@pytest.mark.parametrize("size", [2, 125, 3000])
def test_bootstrap_is_scipys(size):
    values = np.random.default_rng(1).exponential(size=size)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=2000, batch=4_000_000 // size, confidence_level=0.9, method="percentile",
        random_state=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    for _ in range(2):  # the second time by draws that were kept
        assert bootstrap(values, 0.9) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_bootstrap_of_one_value():
    assert bootstrap([0.3]) == (0.3, 0.3)


@pytest.mark.parametrize("total", [6, 7, 10, 100, 500, 2000])
def test_the_median_lies_between_values_as_often_as_it_says_and_hardly_more(total):
    low, high = median_interval(np.random.default_rng(0).permutation(total) + 1.0)  # its own places
    assert low + high == total + 1

    def covers(place):
        """P(at least `place` values below the median, and as many above)."""
        return 1 - 2 * binom.cdf(place - 1, total, 0.5)

    assert covers(low) >= 0.95 > covers(low + 1)


def test_the_median_of_values_that_repeat_is_covered():
    rng, hits = np.random.default_rng(2), 0
    for _ in range(500):  # half of the answers wrong, as at large radii: the median is 0
        low, high = median_interval(np.where(rng.random(50) < 0.5, 0.0, rng.random(50)), 0.9)
        hits += low <= 0 <= high
    assert hits >= 0.9 * 500


def test_too_few_values_do_not_bound_a_median():
    assert median_interval([1.0] * 5) == (-np.inf, np.inf)
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)


@pytest.mark.parametrize("confidence", [0, 1, 1.5])
def test_wrong_confidence(confidence):
    with pytest.raises(ArgumentError, match="confidence"):
        wilson(1, 2, confidence)


def test_no_inputs():
    with pytest.raises(ArgumentError, match="at least one input"):
        bootstrap([])
