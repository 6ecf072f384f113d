"""Distillation from a network's own clean answers: its loss, that it needs no labels, and that it helps under noise."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.engine.told import beside
from anisocert.errors import ArgumentError
from anisocert.models import Denoiser, denoised, load
from anisocert.train import Denoising, Distillation, Sgd, distilled, noisy_accuracy, train
from anisocert.train._classifier import classifier_of
from anisocert.train._mixed import Mixed
from anisocert.train.levels import random_theta

SIGMA = 0.5


@pytest.fixture(scope="module")
def denoiser(digits, plain_file, tmp_path_factory):
    torch.manual_seed(0)
    data, folder = digits[0], tmp_path_factory.mktemp("denoiser")
    made = Denoiser("denoiser-small", data.shape, data.mean, data.std, levels=(SIGMA / 4, 2 * SIGMA))
    recipe = replace(Denoising.for_sigma(SIGMA), classifier=load(plain_file)[0])
    train(made, data, recipe, ac.Gaussian(SIGMA), sgd=Sgd(4, 64, 0.1), folder=folder)
    return folder / "last.safetensors"


def divergence(wanted, found):
    """KL by the definition, mean over rows."""
    p, q = (np.exp(one - one.max(1, keepdims=True)) for one in (wanted, found))
    p, q = (one / one.sum(1, keepdims=True) for one in (p, q))
    return float((p * np.log(p / q)).sum(1).mean())


def test_the_loss_compares_with_the_clean_answer_of_the_network_as_it_was(digits, plain_file):
    model, recipe = distilled(plain_file, None, digits[0])
    x, y = torch.from_numpy(digits[0].x[:16]), torch.zeros(16, dtype=torch.int64)
    with torch.no_grad():
        model.network.head.bias[0] += 3  # a step of training
        torch.manual_seed(3)
        found = float(recipe.loss(Mixed(model, "float32"), x, y, ac.Gaussian(SIGMA)))
    torch.manual_seed(3)
    noisy = x + SIGMA * torch.randn_like(x)
    with torch.no_grad():
        assert found == pytest.approx(divergence(recipe.classifier(x).numpy(), model(noisy).numpy()), rel=1e-4)


def test_behind_a_denoiser_the_noise_is_what_that_was_trained_with(digits, plain_file, denoiser):
    model, recipe = distilled(plain_file, denoiser, digits[0])
    x, y = torch.from_numpy(digits[0].x[:16]), torch.zeros(16, dtype=torch.int64)
    torch.manual_seed(5)
    with torch.no_grad():
        found = float(recipe.loss(Mixed(model, "float32"), x, y, ac.Gaussian(SIGMA)))
    torch.manual_seed(5)
    theta = random_theta(x, SIGMA / 4, 2 * SIGMA)
    noisy = beside(x + theta * torch.randn_like(x), theta)
    with torch.no_grad():
        expected = divergence(recipe.classifier(x).numpy(), model(recipe.denoiser(noisy)).numpy())
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("behind", [False, True])
def test_it_helps_under_noise_without_any_label(digits, plain_file, denoiser, behind, tmp_path):
    data, test = digits
    unlabelled = replace(data, y=np.full(len(data), -1))
    model, recipe = distilled(plain_file, denoiser if behind else None, unlabelled)
    kept = {name: value.clone() for name, value in recipe.classifier.state_dict().items()}
    before = load(plain_file, denoise=str(denoiser) if behind else None)[0]
    sgd = replace(recipe.sgd(len(data), 12), learning_rate=0.05)
    train(model, unlabelled, recipe, ac.Gaussian(SIGMA), sgd=sgd, folder=tmp_path)
    after = denoised(model, recipe.denoiser) if behind else model
    was, now = (noisy_accuracy(one.eval(), test, ac.Gaussian(SIGMA)) for one in (before, after))
    assert now > was + (0.02 if behind else 0.1)
    assert all(torch.equal(kept[name], value) for name, value in recipe.classifier.state_dict().items())
    stored, known = load(tmp_path / "last.safetensors")
    assert known["num_classes"] == 10
    assert known["recipe"]["name"] == "distillation"
    x = torch.from_numpy(test.x[:8])
    torch.testing.assert_close(stored(x), model(x))


def test_probabilities_are_not_taken_for_scores(digits, plain_file, tmp_path, monkeypatch):
    (tmp_path / "nets_of_probabilities.py").write_text(
        "from torch import nn\nfrom anisocert.models import load\n"
        f"def probable(): return nn.Sequential(load({str(plain_file)!r})[0], nn.Softmax(1))\n"
        f"def logs(): return nn.Sequential(load({str(plain_file)!r})[0], nn.LogSoftmax(1))\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=r"expected scores before the softmax, .* got probabilities"):
        classifier_of("nets_of_probabilities:probable", digits[0])
    x = torch.from_numpy(digits[0].x[:8])
    logs = classifier_of("nets_of_probabilities:logs", digits[0])(x)
    torch.testing.assert_close(logs.softmax(1), load(plain_file)[0](x).softmax(1))


def test_noise_that_the_denoiser_does_not_know_is_refused(digits, plain_file, denoiser):
    _, recipe = distilled(plain_file, denoiser, digits[0])
    with pytest.raises(ArgumentError, match="expected gaussian noise, which the denoiser was trained for, got uniform"):
        recipe.check(ac.Uniform(SIGMA))
    Distillation().check(ac.Uniform(SIGMA))


def test_it_is_not_resumed_behind_a_denoiser_that_is_told_otherwise(digits, plain_file, denoiser, tmp_path):
    """Its weights may be the same: what it is told, and for which levels, is not among them."""
    data = digits[0].subset(most=128)
    model, recipe = distilled(plain_file, denoiser, data)
    again = {"sgd": Sgd(1, 64, 0.01), "folder": tmp_path}
    train(model, data, recipe, ac.Gaussian(SIGMA), **again)
    own = recipe.denoiser
    for told, levels in (("scalar", own.levels), (own.told, (0.1, 2.0))):
        other = Denoiser(own.architecture, own.shape, data.mean, data.std, told, own.noise, levels)
        other.load_state_dict(own.state_dict())
        with pytest.raises(ArgumentError, match="one that differs"):
            train(model, data, replace(recipe, denoiser=other), ac.Gaussian(SIGMA), **again)
    assert len(train(model, data, recipe, ac.Gaussian(SIGMA), **again)) == 1
