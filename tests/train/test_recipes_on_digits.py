"""What each recipe certifies on digits, at the same noise: mean certified radius of correct answers."""

import time

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.data import digits
from anisocert.models import build
from anisocert.train import MACER, Cohen, Recipe, Sgd, SmoothAdv, Stability, train

SIGMA = 0.25


def mean_radius(recipe: Recipe, sgd: Sgd) -> float:
    data, tests = digits("train"), digits("test").subset(most=60)
    torch.manual_seed(0)
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    started = time.process_time()  # of one core: others may use the machine as well
    train(model, data, recipe, ac.Gaussian(SIGMA), sgd=sgd)
    assert time.process_time() - started < 60
    plan = ac.Plan(n0=50, n=1000)
    found = ac.certify(model, tests.x, ids=tests.ids.tolist(), smoothing=ac.Gaussian(SIGMA), plan=plan)
    return float(np.mean([c.radius * (c.prediction == label) for c, label in zip(found, tests.y, strict=True)]))


@pytest.fixture(scope="module")
def cohen() -> float:
    return mean_radius(Cohen(), Sgd(10, 64, 0.05))


@pytest.mark.parametrize("recipe", [Stability(), SmoothAdv(epsilon=0.5, steps=3, warmup=3)], ids=lambda r: r.name)
def test_certifies_farther_than_noise_alone(recipe: Recipe, cohen: float) -> None:
    assert mean_radius(recipe, Sgd(10, 64, 0.05)) >= cohen > 0.4


def test_macer_wins_only_at_its_own_step_size(cohen: float) -> None:
    """MACER beats plain noise when both take MACER's small steps (learning rate 0.01).

    It does NOT beat plain noise at the latter's own learning rate on this data and in this short time: the paper trains
    for 440 epochs. Not even with four epochs more than plain noise. What is checked beyond that is its loss, against a
    transcription, in test_losses.
    """
    recipe = MACER(copies=4)
    slow = recipe.sgd(len(digits("train")), 14)
    ours = mean_radius(recipe, slow)
    assert slow.learning_rate == 0.01
    assert ours >= mean_radius(Cohen(), slow)
    assert ours < cohen
