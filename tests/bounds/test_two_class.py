import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from anisocert.bounds import Plan, betting, lower, upper
from anisocert.errors import ArgumentError

one_vs_rest, two_class = (Plan(bound=name).estimate for name in ("one-vs-rest", "two-class"))


def test_each_part_of_alpha_goes_where_it_should() -> None:
    p_a, p_b = two_class(600, 250, 1000, 11, 0.01)
    assert p_a == pytest.approx(lower(600, 1000, 0.009), rel=1e-12)
    assert p_b == pytest.approx(upper(250, 1000, 0.0001), rel=1e-12)
    # With one rival that has all other votes, what the top class surely has is the better bound of the rest.
    p_a, p_b = two_class(600, 400, 1000, 11, 0.01)
    assert p_b == 1 - p_a < upper(400, 1000, 0.0001)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(1e-9, 0.5))
def test_two_classes_are_one_vs_rest_with_the_full_alpha(tally: tuple[int, int], alpha: float) -> None:
    k, n = tally
    p_a = lower(k, n, alpha)
    assert two_class(k, n - k, n, 2, alpha) == one_vs_rest(k, n - k, n, 2, alpha) == (p_a, 1 - p_a)


@pytest.mark.parametrize(("p_a", "p_b", "factor"), [(0.6, 0.2, 2.2), (0.8, 0.1, 1.26), (0.99, 0.005, 1.05)])
def test_how_much_larger_the_l2_radius_becomes_with_many_votes(p_a: float, p_b: float, factor: float) -> None:
    n = 10**9

    def radius(bounds: tuple[float, float]) -> float:
        return (norm.ppf(bounds[0]) - norm.ppf(bounds[1])) / 2

    seen = round(p_a * n), round(p_b * n), n, 10, 1e-3
    assert radius(two_class(*seen)) / radius(one_vs_rest(*seen)) == pytest.approx(factor, rel=0.02)


def test_certifies_below_one_half() -> None:
    p_a, p_b = two_class(4_500, 2_000, 10_000, 10, 1e-3)
    assert p_b < p_a < 0.5
    p_a, p_b = one_vs_rest(4_500, 2_000, 10_000, 10, 1e-3)
    assert p_a < p_b


SHARES = {
    "two near equal": [0.4, 0.3, 0.3],
    "49 equal runners-up": [0.3] + [0.7 / 49] * 49,
    "nine equal, all close to the top": [0.1] * 10,
    "one clear runner-up": [0.6, 0.3] + [0.1 / 8] * 8,
    "rare runners-up": [0.99] + [0.01 / 9] * 9,
}


@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES.keys())
def test_coverage(shares: list[float], within_rate) -> None:
    runs, n, alpha = 10_000, 500, 0.05
    counts = np.random.default_rng(2).multinomial(n, shares, runs)
    p_a, p_b = two_class(counts[:, 0], counts[:, 1:].max(1), n, len(shares), alpha)
    wrong = (p_a > shares[0]) | (p_b < max(shares[1:]))
    assert within_rate(wrong.sum(), runs, alpha)
    # p_B alone, where it is not 1 - p_A: at most its own part of alpha
    assert within_rate((p_b < np.minimum(max(shares[1:]), 1 - p_a)).sum(), runs, 0.1 * alpha)


def test_every_other_class_is_bounded_at_once(within_rate) -> None:
    shares, runs, n, alpha = np.array(SHARES["49 equal runners-up"]), 3_000, 500, 0.5
    counts = np.random.default_rng(3).multinomial(n, shares, runs)
    each = upper(counts[:, 1:], n, 0.1 * alpha / 49)
    assert within_rate((each < shares[1:]).any(1).sum(), runs, 0.1 * alpha)
    undivided = upper(counts[:, 1:], n, 0.1 * alpha)
    assert not within_rate((undivided < shares[1:]).any(1).sum(), runs, 0.1 * alpha)


def test_a_runner_up_named_by_an_earlier_sample_would_be_invalid(within_rate) -> None:
    shares, runs, n, alpha = [0.42, 0.1] + [0.06] * 8, 5_000, 2_000, 0.05
    rng = np.random.default_rng(4)
    first, counts = rng.multinomial(20, shares, runs), rng.multinomial(n, shares, runs)
    named = 1 + first[:, 1:].argmax(1)
    trusting = upper(counts[np.arange(runs), named], n, 0.1 * alpha)
    assert not within_rate((trusting < 0.1).sum(), runs, alpha)
    _, p_b = two_class(counts[:, 0], counts[:, 1:].max(1), n, len(shares), alpha)
    assert within_rate((p_b < 0.1).sum(), runs, alpha)


def test_takes_another_family_of_bounds() -> None:
    p_a, p_b = Plan(bound="two-class", stop="betting").estimate(600, 250, 1000, 11, 0.01)
    assert p_a == pytest.approx(betting.lower(600, 1000, 0.009), rel=1e-9)
    assert p_b == pytest.approx(betting.upper(250, 1000, 0.0001), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: two_class(5, 1, 10, 1, 0.1), r"expected num_classes in \[2, \d+\], got 1"),
        (lambda: two_class(5, 1, 10, 3.0, 0.1), "expected num_classes to be an integer, got 3.0"),
        (
            lambda: two_class(5, 6, 10, 3, 0.1),
            r"expected top_votes \+ runner_up_votes <= votes, got .* 11 with votes = 10",
        ),
        (lambda: two_class(5, -1, 10, 3, 0.1), "expected runner_up_votes >= 0, got -1"),
        (lambda: two_class(5, 1, 10, 3, 1.5), "expected alpha below 1, got 1.5"),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
