"""The network that a denoiser or a fine-tuning begins with: what it may be, and that no other takes its place."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import anisocert as ac
from anisocert.data import load
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.models import Denoiser, build
from anisocert.train import Denoising, Distillation, Sgd, train
from anisocert.train._classifier import classifier_of, network_hash


class Scored(nn.Module):
    def __init__(self, network, sign=1.0):
        super().__init__()
        self.network, self.sign = network, sign

    def forward(self, x):
        return self.sign * self.network(x)


class Mirrored(Scored):
    def forward(self, x):
        return self.network(1 - x)


@pytest.fixture(scope="module")
def data():
    return load("digits", "train").subset(most=96)


@pytest.fixture(scope="module")
def network(data):
    torch.manual_seed(0)
    return build("small-cnn", 10, data.mean, data.std).eval()


def test_a_training_is_not_resumed_beside_the_same_weights_used_otherwise(data, network, tmp_path):
    recipe = replace(Denoising.for_sigma(0.5), classifier=Scored(network))
    again = {"sgd": Sgd(1, 96, 0.1), "folder": tmp_path}

    def fresh():
        return Denoiser("denoiser-small", data.shape, data.mean, data.std, levels=(recipe.low, recipe.high))

    train(fresh(), data, recipe, ac.Gaussian(0.5), **again)
    for other in (Scored(network, -1.0), Mirrored(network)):
        with pytest.raises(ArgumentError, match="one that differs"):
            train(fresh(), data, replace(recipe, classifier=other), ac.Gaussian(0.5), **again)
    assert len(train(fresh(), data, recipe, ac.Gaussian(0.5), **again)) == 1


def test_what_cannot_be_read_is_named_by_its_weights(network):
    one, other = Scored(network, (i for i in ())), Scored(network, (i for i in ()))
    assert network_hash(one) == network_hash(other) != network_hash(build("small-cnn", 10, (0.5,), (0.5,)))


def test_it_may_have_more_classes_than_the_data(data, tmp_path, monkeypatch):
    (tmp_path / "nets_of_twelve.py").write_text(
        "from anisocert.models import build\ndef twelve(): return build('small-cnn', 12, (0.5,), (0.5,))\n"
    )
    monkeypatch.chdir(tmp_path)
    assert classifier_of("nets_of_twelve:twelve", data)(torch.from_numpy(data.x[:2])).shape == (2, 12)


def test_weights_alone_are_read_with_mean_and_std(data, network, tmp_path):
    save_file(network.network.state_dict(), tmp_path / "weights.safetensors")
    with pytest.raises(ModelError, match="expected mean and std"):
        classifier_of(tmp_path / "weights.safetensors", data)
    found = classifier_of(tmp_path / "weights.safetensors", data, reading={"mean": data.mean, "std": data.std})
    x = torch.from_numpy(data.x[:4])
    torch.testing.assert_close(found(x), network(x))
    in_pixels = replace(data, pixels=(255 * np.asarray(data.x)).astype(np.float32))
    with pytest.raises(ArgumentError, match="expected inputs in the network's units"):
        classifier_of(tmp_path / "weights.safetensors", in_pixels, reading={"mean": data.mean, "std": data.std})


def test_inputs_of_another_shape_are_told_in_our_words(data, network, tmp_path):
    save_file(network.network.state_dict(), tmp_path / "weights.safetensors")
    colour = replace(data, pixels=np.repeat(np.asarray(data.pixels), 3, 1), mean=data.mean * 3, std=data.std * 3)
    with pytest.raises(ModelError, match=r"takes 1 channel in 2 dimensions, and inputs have 3"):
        classifier_of(tmp_path / "weights.safetensors", colour, reading={"mean": data.mean, "std": data.std})


def test_noise_that_a_denoiser_in_front_does_not_know_is_warned_of(data, network):
    front = Denoiser("denoiser-small", data.shape, data.mean, data.std, levels=(0.125, 1.0))
    recipe = Distillation(network, front)
    recipe.check(ac.Gaussian(0.5))
    with pytest.warns(AnisocertWarning, match="expected levels of the denoiser around the noise of 5"):
        recipe.check(ac.Gaussian(5.0))


def test_a_network_without_weights_is_not_fine_tuned(data, tmp_path):
    flat = nn.Flatten()
    with pytest.raises(ArgumentError, match=r"expected a network made by anisocert.models.build to save its training"):
        train(flat, data, Distillation(flat), ac.Gaussian(0.5), sgd=Sgd(1, 96, 0.1), folder=tmp_path)
