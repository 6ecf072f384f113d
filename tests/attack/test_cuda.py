"""The attack on a GPU: the same verdicts as on a CPU, whose noise is another."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.attack import Search, attack, attack_first
from anisocert.engine import Numerics
from anisocert.runs import read_run

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


def test_a_half_space_is_lost_where_its_plane_is_in_reach(half_space, write_run, tmp_path):
    network = ac.Network(half_space([1.0, 0.0]).eval(), 2, "cuda", Numerics("float32", False, 800))
    x = np.array([[0.4, 0.0], [-0.9, 1.0]], np.float32)
    plan = ac.Plan(n0=300, n=2000)
    for name, method in (("fixed", ac.Fixed()), ("isotropic", ac.Isotropic())):
        found = ac.certify(network, x, smoothing=ac.Gaussian(0.25), method=method, plan=plan)
        write_run(tmp_path / name, found, [0, 1], n0=plan.n0, n=plan.n)
        how = Search(starts=4, steps=10, samples=8)
        told = attack_first(
            read_run(tmp_path / name), network, dict(enumerate(x)).get, radii=[0.2, 0.7, 1.2], how=how, n=2000
        )
        assert told.found.withstood.sum(0).tolist() == [2, 2, 1, 0]
        assert not told.failed
