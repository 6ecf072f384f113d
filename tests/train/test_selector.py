"""What a selector learns: values of codes against exact ones, and how often an example occurs."""

import numpy as np
import pytest
import torch
from scipy.special import ndtri

import anisocert as ac
from anisocert.data import Dataset
from anisocert.errors import ArgumentError
from anisocert.optimize.clusters import clustered
from anisocert.smoothing import Gaussian
from anisocert.train import Selector, Sgd, code_values, selector_data, train

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


class Scores(torch.nn.Module):
    """The same scores for every input."""

    def __init__(self, p):
        super().__init__()
        self.p = torch.tensor(p)

    def forward(self, x):
        return self.p.log().expand(len(x), -1)


@pytest.mark.parametrize(
    ("p", "value", "expected"),
    [
        ([0.5, 0.5], [1.0, 1.0], 0.5 * np.log(2)),  # no code is wrong, but doubt costs
        ([1.0, 1e-30], [2.0, 0.0], 0.0),
        ([0.25, 0.75], [0.0, 1.0], -np.log(0.75) + 0.5 * (0.25 * np.log(4) - 0.75 * np.log(0.75))),
    ],
)
def test_the_loss_is_what_a_wrong_code_and_doubt_cost(p, value, expected):
    recipe = Selector(values=torch.tensor([value, [9.0, 9.0]]))
    loss = recipe.loss(Scores(p), torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), ac.Gaussian(0.5))
    assert float(loss) == pytest.approx(expected, abs=1e-5)


def test_doubt_between_codes_of_like_worth_costs_more_than_the_worse_of_them():
    recipe = Selector(values=torch.tensor([[1.0, 0.9]]))
    losses = [
        float(recipe.loss(Scores(p), torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64), ac.Gaussian(0.5)))
        for p in ([1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6], [0.5, 0.5])
    ]
    assert losses[0] < losses[1] < losses[2]


def test_a_selector_learns_where_each_code_is_worth_more():
    """Code 0 left of zero, code 1 right of it; labels are places, and the file has as many outputs as codes."""
    x = np.random.default_rng(0).uniform(-3, 3, (400, 2)).astype(np.float32)
    values = torch.from_numpy(np.stack([x[:, 0] < 0, x[:, 0] >= 0], 1).astype(np.float32))
    data, model = selector_data(made(x, np.zeros(400, int))), torch.nn.Linear(2, 2)
    train(model, data, Selector(values=values), ac.Gaussian(0.5), sgd=Sgd(8, 50, 0.1), crop=0, flip=False)
    named = model(torch.from_numpy(x)).argmax(1).numpy()
    assert (named == (x[:, 0] >= 0)).mean() > 0.97


def test_what_codes_were_chosen_for_is_kept_with_the_weights():
    assert (Selector(worth="volume").options()["worth"], "worth" in Selector().typed()) == ("volume", False)


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
