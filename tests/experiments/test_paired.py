import numpy as np
import pytest

from paired import accuracy_gain, average_gain


def test_means_are_of_the_shared_inputs(results):
    one, other = results([0.6, 0.8, 9.0]), results([0.5, 0.5], [True, False])
    found = average_gain(one, other)
    assert (found.one, found.other, found.inputs) == (pytest.approx(0.7), 0.25, 2)
    assert found.ratio == pytest.approx(2.8)
    assert accuracy_gain(one, other).difference == 0.5


def test_pairs_are_sure_of_what_two_samples_are_not(results):
    rng = np.random.default_rng(0)
    sizes = rng.uniform(0, 2, 200)
    better = average_gain(results((sizes + 0.01 * rng.random(200)).tolist()), results(sizes.tolist()))
    assert better.sure
    assert better.low > 0
    noise = average_gain(results((sizes + 0.01 * rng.normal(size=200)).tolist()), results(sizes.tolist()))
    assert noise.low <= noise.difference <= noise.high
    same = average_gain(results([0.5, 0.4]), results([0.5, 0.4]))
    assert (same.ratio, same.sure, same.low, same.high) == (1.0, False, 0.0, 0.0)


def test_proxy_radii(results):
    one, other = results([0.5]), results([0.5], proxy_radius=np.array([0.5]))
    assert average_gain(one, other).ratio == 1
    assert average_gain(one, other, "proxy_radius").ratio == 2


def test_nothing_is_a_multiple_of_nothing(results):
    assert np.isnan(average_gain(results([0.5]), results([0.5], [False])).ratio)
