"""What a selector learns: values of codes against exact ones, and how often an example occurs."""

import numpy as np
import pytest
from scipy.special import ndtri

import anisocert as ac
from anisocert.data import Dataset
from anisocert.errors import ArgumentError
from anisocert.optimize.clusters import clustered
from anisocert.smoothing import Gaussian
from anisocert.train import code_values, selector_data

CODES = ac.Codebook([0.25, 0.5, 2.0], 0.5)


def made(x, y, classes=2):
    x = np.asarray(x, np.float32)
    return Dataset("made", x, np.asarray(y), np.arange(len(x)), classes, (0.5,), (0.5,))


def test_values_are_what_the_plan_would_certify(bands):
    """A slab: little noise near its border, no noise that is wider than it."""
    network = ac.Network(bands([1.0, 0.0], [-1.0, 1.0], [1, 0, 1], 2).eval(), 2)
    data = made([[0.0, 0.0], [0.7, 0.0], [3.0, 0.0]], [0, 0, 0])
    values = code_values(network, data, CODES, Gaussian, ac.Plan(n=1000), votes=4000)
    for one, found in zip(data.x.astype(np.float64), values, strict=True):
        shares = [network.model.shares(one[None], theta)[0, 0] for theta in CODES.codes]
        ideal = np.array([max(ndtri(min(p, 0.993)), 0) * theta for p, theta in zip(shares, CODES.codes, strict=True)])
        np.testing.assert_allclose(found, ideal, atol=0.15 * CODES.codes.max())
        assert (found[ideal == 0] < 0.003).all()
    assert values.argmax(1).tolist()[:2] == [1, 0]
    shaped = ac.Codebook([[0.25, 4.0], [0.5, 0.5]], 0.5)
    radius, volume = (
        code_values(network, made([[0.0, 0.0]], [0]), shaped, Gaussian, ac.Plan(n=1000), worth, votes=960)
        for worth in ("radius", "volume")
    )
    assert radius[0].argmax() == 1
    assert volume[0].argmax() == 0


def test_an_example_occurs_as_often_as_a_wrong_code_costs():
    values = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.0, 3.0, 0.0], [0.0, 0.0, 0.1]] * 250)
    data = made(np.arange(1000).repeat(2).reshape(1000, 2) % 8, np.zeros(1000, int))
    drawn = selector_data(data, values)
    kind = (drawn.x[:, 0] % 4).astype(int)
    assert (np.array([0, 0, 1, 2])[kind] == drawn.y).all()
    assert (drawn.num_classes, len(drawn)) == (3, 1000)
    cost = np.array([1.0, 0.0, 3.0, 0.1])
    expected = cost + cost.mean() / 4
    np.testing.assert_allclose(np.bincount(kind) / 1000, expected / expected.sum(), atol=0.02)


def test_no_code_is_better_anywhere():
    data = made(np.zeros((5, 2)), np.zeros(5, int))
    assert len(selector_data(data, np.zeros((5, 3)))) == 5


def test_codes_are_the_centres_of_clusters():
    rng = np.random.default_rng(0)
    centres = np.exp(rng.normal(size=(3, 2, 2)))
    thetas = [centres[i % 3] * np.exp(0.01 * rng.normal(size=(2, 2))) for i in range(60)]
    found = clustered(thetas, 3)
    wanted = centres[np.argsort(np.log(centres).mean((1, 2)))]
    np.testing.assert_allclose(found, wanted, rtol=0.02)
    np.testing.assert_array_equal(found, clustered(thetas, 3))
    with pytest.raises(ArgumentError, match="expected 1 to 1 shapes, of different thetas, got 2"):
        clustered([[1.0, 2.0]] * 5, 2)
