"""The attack on a GPU: the same verdicts as on a CPU, whose noise is another."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.attack import Search, attack
from anisocert.engine import Numerics

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("norm", [1, 2])
def test_planted_violations_are_found_and_nothing_else(norm, half_space, coordinate_threshold):
    model = half_space([1, 2, -1, 0.5]).eval() if norm == 2 else coordinate_threshold
    network = ac.Network(model, 2, "cuda", Numerics("float32", False, 800))
    x = np.random.default_rng(0).uniform(-0.45, 0.45, size=(10, 4)).astype(np.float32) * (4 if norm == 2 else 1)
    theta = np.array([0.5, 1.0, 0.7, 1.5], np.float32)
    smoothing = ac.Gaussian(theta) if norm == 2 else ac.Uniform(theta)
    found = ac.certify(network, x, smoothing=smoothing, plan=ac.Plan(n=20_000), num_classes=2)
    certificates = [c for c in found if c.gap > (0.7 if norm == 2 else 0.5)]
    assert certificates
    how = Search(starts=2, steps=10, samples=8)
    assert not attack(network, certificates, how=how, n=4000).broken
    grown = [replace(c, region=c.region.scaled(1.3)) for c in certificates]
    assert len(attack(network, grown, how=how, n=4000).broken) == len(grown)
