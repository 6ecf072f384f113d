"""Certificates of a small network trained on noisy digits."""

import pytest

import anisocert as ac
from anisocert import models
from anisocert.data import digits
from anisocert.engine import Numerics


@pytest.fixture(scope="session")
def digits_network(trained_digits):
    """Four certificates with the bound that counts the next class, not all others."""
    network = ac.Network(models.load(trained_digits)[0], 10, numerics=Numerics("float32", False, 800))
    some = digits("test").subset(most=4)
    plan = ac.Plan(n=4000, bound="two-class")
    return network, ac.certify(network, some.x, ids=some.ids.tolist(), smoothing=ac.Gaussian(0.25), plan=plan)
