from fractions import Fraction

import numpy as np
import pytest

from anisocert.rounding import (
    agrees,
    down,
    error_of_sum,
    float32_down,
    float32_up,
    gap_down,
    inwards,
    round_numbers,
    up,
)

RNG = np.random.default_rng(0)
VALUES = np.exp(RNG.uniform(-30, 30, 1000))


def test_float32_is_the_nearest_on_its_side():
    down, up = float32_down(VALUES), float32_up(VALUES)
    assert down.dtype == up.dtype == np.float32
    assert (down <= VALUES).all()
    assert (up >= VALUES).all()
    assert (np.nextafter(down, np.float32(np.inf)) == up).all()
    exact = VALUES.astype(np.float32).astype(np.float64)
    assert np.array_equal(float32_down(exact), exact)
    assert np.array_equal(float32_up(exact), exact)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_one_step_down_and_up_in_ones_own_precision(kind):
    values = np.append(VALUES, 0).astype(kind)
    lower, upper = down(values), up(values)
    assert lower.dtype == upper.dtype == kind
    assert np.array_equal(lower, np.nextafter(values, kind(0)))
    assert np.array_equal(upper, np.nextafter(values, kind(np.inf)))
    assert (down(np.asarray(values[0])).dtype, up(values[0]).dtype) == (kind, kind)
    assert (down(0.5), up(0.5), down(0.0)) == (0.5 - 2**-54, 0.5 + 2**-53, 0.0)


def test_beyond_float32_up_is_infinite():
    with np.errstate(over="ignore"):
        assert float32_up(np.array([1e39])) == np.inf


@pytest.mark.parametrize(
    ("claimed", "better", "expected"),
    [
        (1.0, 1, True), (1 + 1e-14, 1, True), (1 + 1e-12, 1, False), (1 - 1e-10, 1, True), (1 - 1e-8, 1, False),
        (1 - 1e-14, -1, True), (1 - 1e-12, -1, False), (1 + 1e-10, -1, True), (1 + 1e-8, -1, False),
        (float("nan"), 1, False),
    ],
)  # fmt: skip
def test_a_claim_may_be_a_little_less_and_hardly_more(claimed, better, expected):
    assert agrees(claimed, 1.0, better) is expected


def test_a_claim_of_something_where_there_is_nothing():
    assert agrees(0.0, 0.0)
    assert not agrees(1e-300, 0.0)
    assert agrees(0.5, 1.0, less=np.inf)
    assert not agrees(1 + 1e-14, 1.0, more=0.0)
    assert agrees(1 + 1e-10, 1.0, more=1e-9)


@pytest.mark.parametrize("dim", [2, 1000])
def test_error_of_sum_bounds_a_sums_error(dim):
    terms = np.exp(RNG.uniform(-5, 5, dim))
    exact = sum(map(Fraction, terms.tolist()))
    assert abs(Fraction(float(terms.sum())) / exact - 1) <= Fraction(error_of_sum(dim))


@pytest.mark.parametrize("dim", [2, 3072, 150_528])
def test_error_of_sum_bounds_a_sum_one_after_another(dim):
    """All terms but the first are lost, as cumsum adds them."""
    terms = np.append(1.0, np.full(dim - 1, 2.0**-53))
    assert np.cumsum(terms)[-1] == 1
    assert (1 + (dim - 1) * Fraction(2.0**-53)) * (1 - Fraction(error_of_sum(dim))) < 1


def test_gaps_and_axes_get_smaller_and_stay_positive():
    assert (gap_down(VALUES) < VALUES).all()
    assert gap_down(np.array([1e-15])) == 0
    assert (inwards(VALUES) < VALUES).all()
    assert np.allclose(inwards(VALUES), VALUES, rtol=1e-15)


@pytest.mark.parametrize(("near", "expected"), [(0.03, [0.01, 0.02, 0.025, 0.05, 0.1]), (1, [1, 2, 2.5, 5, 10])])
def test_round_numbers(near, expected):
    assert round_numbers(near) == pytest.approx(expected)
    assert round_numbers(near, (3,)) == pytest.approx([3 * expected[0]])
