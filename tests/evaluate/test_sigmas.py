"""Two rules for several noise levels. Little noise: accurate and short; much noise: the other way round."""

import numpy as np
import pytest

from anisocert.errors import ArgumentError
from anisocert.evaluate import envelope, oracle


@pytest.fixture
def two(results):
    # inputs 0 to 9: little noise certifies 8 of them at 0.4; much noise others, 5 of them, at 1.5
    little = results([0.4] * 8 + [None] * 2, sigma=0.25)
    much = results([1.5] * 3 + [None] * 5 + [1.5] * 2, sigma=1.0)
    return [little, much]


def test_the_rules_differ(two):
    at = [0.0, 0.4, 0.5, 1.5, 1.6]
    assert envelope(two, at).tolist() == [0.8, 0.8, 0.5, 0.5, 0.0]
    assert oracle(two).accuracy(at).tolist() == [1.0, 1.0, 0.5, 0.5, 0.0]


def test_oracle_by_hand(two):
    best = oracle(two)
    assert best.radius.tolist() == [1.5] * 3 + [0.4] * 5 + [1.5] * 2
    assert best.mean() == pytest.approx((5 * 1.5 + 5 * 0.4) / 10)
    assert best.sigma is None


def test_the_oracle_looks_at_the_label(results):
    small_and_right, large_and_wrong = results([0.1]), results([9.0], [False])
    best = oracle([large_and_wrong, small_and_right])
    assert (best.radius[0], best.prediction[0]) == (0.1, 1)


def test_a_correct_answer_of_size_zero_beats_a_wrong_one(results):
    assert oracle([results([0.0], [False]), results([0.0], [True])]).correct.all()


def test_alphas_add_up(two):
    assert oracle(two).alpha == pytest.approx(0.002)


def test_oracle_is_never_below_the_envelope_nor_that_below_any_level(results):
    rng = np.random.default_rng(0)
    levels = [results(list(rng.exponential(s, 50)), list(rng.random(50) < 0.6), sigma=s) for s in (0.2, 0.5, 1.0)]
    at = np.linspace(0, 3, 40)
    best = envelope(levels, at)
    assert (oracle(levels).accuracy(at) >= best).all()
    assert all((best >= one.accuracy(at)).all() for one in levels)
    assert (oracle(levels).accuracy(at) > best).any()


def test_each_size_has_an_oracle_of_its_own(results):
    round_, long = results([0.5], proxy_radius=np.array([0.6])), results([0.4], proxy_radius=np.array([2.0]))
    assert oracle([round_, long]).radius.tolist() == [0.5]
    assert oracle([round_, long], "proxy_radius").proxy_radius.tolist() == [2.0]


def test_short_logs_are_joined(results):
    assert len(oracle([results([1.0, 2.0, 3.0]), results([0.5], ids=np.array([2]))])) == 1


def test_methods_are_not_mixed(results):
    with pytest.raises(ArgumentError, match="one method"):
        oracle([results([1.0]), results([1.0], method="isotropic")])


def test_unknown_sizes_have_no_oracle(results):
    with pytest.raises(ArgumentError, match="proxy_radius"):
        oracle([results([1.0], proxy_radius=np.array([np.nan]))], "proxy_radius")
