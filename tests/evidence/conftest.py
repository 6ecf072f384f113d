"""Runs whose inputs were kept, shrunk, inherited and abstained by a memory, and one without a memory."""

from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert import models
from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.runs import add_to_memory, read_run, save_run


@pytest.fixture(scope="session")
def made(trained_digits, tmp_path_factory):
    """A folder with `plain`, a run as it came, and `remembered`, one through a memory."""
    folder = tmp_path_factory.mktemp("some evidence")
    network = ac.Network(models.load(trained_digits)[0], 10, numerics=Numerics("float32", False, 160))
    some, theta = digits("test").subset(most=12), np.random.default_rng(0).uniform(0.2, 0.4, (1, 8, 8))
    smoothing = ac.Gaussian(theta.astype(np.float32))
    found = ac.certify(network, some.x, ids=some.ids.tolist(), smoothing=smoothing, plan=ac.Plan(n=200))
    described = {
        "data": "digits", "model": str(trained_digits), "sigma": 0.25, "n0": 100, "n": 200, "alpha": 0.001, "seed": 0,
        "device": "cpu", "numerics": vars(network.numerics), "norm": "l2",
    }  # fmt: skip
    # Regions larger than certified, so that the memory has something to do: the first one just covers an input of
    # another class, and the input that is farthest from it abstains.
    gauges = found[0].region.gauges(some.x)
    other = np.array([c.prediction != found[0].prediction for c in found])
    factors = np.full(len(found), 3.0)
    factors[0] = 1.02 * gauges[other].min()
    grown = [_grown(c, k) for c, k in zip(found, factors, strict=True)]
    last = int(gauges.argmax())
    found[last] = grown[last] = replace(
        grown[last], prediction=-1, gap=0.0, region=None, p_a=0.4, p_b=0.6, x=some.x[last], reason="no class is clear"
    )
    save_run(folder / "plain", described | {"method": "fixed"}, found, some.y.tolist(), 0.25)
    save_run(folder / "remembered", described | {"method": "anisotropic"}, grown, some.y.tolist(), 0.25)
    with ac.Memory.open(folder / "memory.sqlite") as memory:
        add_to_memory(folder / "remembered", memory, dict(zip(some.ids.tolist(), some.x, strict=True)))
    return folder


def _grown(certificate, factor):
    theta = (certificate.theta * factor).astype(np.float32)
    region = ac.Gaussian(theta).region(certificate.region.center, theta, certificate.gap)
    return replace(certificate, theta=theta, region=region, method="anisotropic")


@pytest.fixture
def plain(made):
    return read_run(made / "plain")


@pytest.fixture
def remembered(made):
    return read_run(made / "remembered")


@pytest.fixture
def noted(remembered):
    """The id of an input with each note."""
    return dict(zip(remembered.column("memory_note")[::-1], remembered.column("idx")[::-1].tolist(), strict=True))
