import pytest
import torch

from anisocert.data import load
from anisocert.models import build
from anisocert.smoothing import Gaussian
from anisocert.train import Cohen, Sgd, train


@pytest.fixture(scope="session")
def digits():
    return load("digits", "train"), load("digits", "test")


@pytest.fixture(scope="session")
def plain_file(digits, tmp_path_factory):
    """The file of a network that never saw noise worth the name."""
    torch.manual_seed(0)
    network, folder = build("small-cnn", 10, digits[0].mean, digits[0].std), tmp_path_factory.mktemp("plain")
    train(network, digits[0], Cohen(), Gaussian(1e-3), sgd=Sgd(12, 64, 0.05), folder=folder)
    return folder / "last.safetensors"
