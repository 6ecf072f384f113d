"""What the methods choose: shapes, bounds, and regions against boundaries that are known."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.engine import Network, Query, Stage, Stream
from anisocert.errors import ArgumentError
from anisocert.optimize import PublishedAnisotropic, PublishedIsotropic
from anisocert.optimize._pilot import Pilot, sizes
from anisocert.optimize.reach import reach

pytestmark = pytest.mark.precision

METHODS = [
    ac.Fixed(), ac.Isotropic(), ac.Anisotropic(), PublishedAnisotropic(isotropic=PublishedIsotropic(iterations=20))
]  # fmt: skip
PLAN = ac.Plan(n=20_000)


def distance(network, region, norm):
    """Distance of a region's centre to a half-space's boundary in the region's own gauge: above 1 is outside."""
    weight = network.weight.double().numpy().ravel()
    margin = abs(float(weight @ region.center.ravel()) - network.offset)
    scaled = np.abs(weight) * region.axes.ravel()
    return margin / (np.linalg.norm(scaled) if norm == 2 else scaled.max())


@pytest.mark.parametrize("smoothing", [ac.Gaussian(0.25), ac.Uniform(0.5)], ids=["l2", "l1"])
@pytest.mark.parametrize("method", METHODS, ids=["fixed", "isotropic", "anisotropic", "published"])
def test_certified_regions_never_cross_a_known_boundary(few_coordinates, smoothing, method):
    x = torch.zeros(12, 16)
    x[:, :2] = torch.tensor([3.0, 4.0]) / 5 * torch.linspace(-0.6, 0.6, 12).unsqueeze(1)
    certificates = ac.certify(few_coordinates, x, num_classes=2, smoothing=smoothing, method=method, plan=PLAN)
    certified = [c for c in certificates if c.prediction >= 0]
    assert len(certified) >= 8
    for c in certified:
        assert c.prediction == int(x[c.id] @ few_coordinates.weight < 0)
        assert distance(few_coordinates, c.region, smoothing.norm) >= 1


def test_ancer_grows_the_coordinates_that_do_not_matter(slab):
    x, smoothing, plan = torch.zeros(3, 16), ac.Gaussian(0.25), ac.Plan()
    found = ac.certify(slab, x, num_classes=2, smoothing=smoothing, method=ac.Anisotropic(), plan=plan, seed=1)
    round_ = ac.certify(slab, x, num_classes=2, smoothing=smoothing, method=ac.Isotropic(), plan=plan, seed=1)
    for a, b in zip(found, round_, strict=True):
        assert a.theta[2:].min() > 1.5 * a.theta[:2].max()
        assert a.proxy_radius > 1.3 * b.proxy_radius
        assert a.radius >= 0.98 * b.radius
        assert np.linalg.norm(slab.weight.numpy() * a.region.axes) <= slab.half_width


class Constant(nn.Module):
    def forward(self, x):
        return torch.stack([2 + 0 * x.flatten(1).sum(1), 0 * x.flatten(1).sum(1)], 1)


@pytest.mark.parametrize("smoothing", [ac.Gaussian(0.25), ac.Uniform(0.25)], ids=["l2", "l1"])
def test_theta_stays_within_its_limit(smoothing):
    method = ac.Anisotropic(isotropic=ac.Isotropic(limit=3.0, bounded_reach=False))
    theta = method.choose(Query(Network(Constant().eval(), 2), smoothing, torch.rand(2, 4), [0, 1], 0), PLAN)
    assert theta.max() <= 0.75
    assert theta.min() >= 0.7


def test_without_a_reach_the_limit_is_lower():
    for shape, expected in (((16,), 6.0), ((1, 4, 4), 32.0)):
        assert ac.Isotropic().limit_for(shape) == ac.Anisotropic().limit_for(shape) == expected
        assert ac.Isotropic(bounded_reach=False).limit_for(shape) == 6.0
        assert ac.Isotropic(limit=9.0).limit_for(shape) == 9.0
        assert ac.Fixed().limit_for(shape) == math.inf


def test_regions_do_not_reach_beyond_half_the_way_to_a_blank_image():
    x = torch.rand(4, 1, 6, 6)
    blank = x.flatten(1).mean(1)
    half = (x.flatten(1) - blank.unsqueeze(1)).norm(dim=1) / 2
    np.testing.assert_allclose(reach(x, 2), half.double().numpy(), rtol=1e-6)
    for method in (ac.Isotropic(limit=100.0), ac.Anisotropic(isotropic=ac.Isotropic(limit=100.0))):
        for c in ac.certify(Constant().eval(), x, num_classes=2, smoothing=ac.Gaussian(0.25), method=method, plan=PLAN):
            # unanimous pilots promise a little less than n unanimous votes do
            assert 0.5 * half[c.id] < c.proxy_radius < 1.5 * half[c.id]


def test_a_class_that_wins_only_under_huge_noise_is_not_taken():
    class Runaway(nn.Module):
        """Class 0 near the input, class 1 as soon as the noise is much larger than it was in training."""

        def forward(self, x):
            size = x.flatten(1).square().mean(1)
            return torch.stack([0.5 - 0 * size, size, 0.45 + 0 * size], 1)

    x = torch.zeros(2, 1, 8, 8)
    method = ac.Isotropic(limit=8.0, bounded_reach=False)
    for c in ac.certify(Runaway().eval(), x, num_classes=3, smoothing=ac.Gaussian(0.25), method=method, plan=PLAN):
        assert c.prediction == 0
        assert c.theta < 0.75


def test_average_is_the_mean_and_the_same_for_all(smooth):
    thetas = [np.full((2, 3), 0.2), np.full((2, 3), 0.4)]
    average = ac.Average.of(thetas)
    theta = average.choose(Query(Network(smooth, 3), ac.Gaussian(0.3), torch.rand(4, 2, 3), range(4), 0), PLAN)
    torch.testing.assert_close(theta, torch.full((4, 2, 3), 0.3))
    with pytest.raises(ArgumentError, match="expected the noise's parameter"):
        average.choose(Query(Network(smooth, 3), ac.Gaussian(0.3), torch.rand(4, 3, 2), range(4), 0), PLAN)
    with pytest.raises(ArgumentError, match="positive"):
        ac.Average([0.1, -0.1])
    with pytest.raises(ArgumentError, match=r"expected thetas of one shape, got \(2, 3\) and \(\)"):
        ac.Average.of([thetas[0], 0.1])


def test_an_average_takes_the_memory_of_one_theta():
    thetas = [np.full(100_000, 0.1 * (i + 1), np.float32) for i in range(20)]
    tracemalloc.start()
    average = ac.Average.of(thetas)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(average.theta, np.mean(np.array(thetas, np.float64), axis=0).astype(np.float32))
    assert peak < 4 * 8 * 100_000


def test_a_search_needs_one_number_to_start_from(smooth):
    x = torch.rand(1, 2, 3)
    for noise in (ac.Gaussian(np.full((2, 3), 0.2)), ac.GaussianMixture([0.5, 0.5], [0.1, 0.2])):
        with pytest.raises(ArgumentError, match="isotropic"):
            ac.Isotropic().choose(Query(Network(smooth, 3), noise, x, [0], 0), PLAN)


def test_choosing_uses_no_noise_of_the_certificate(few_coordinates, monkeypatch):
    """Theta must be a function of stages 0 alone: whatever the estimate draws, it stays the same."""
    drawn = []

    def recording(seed, stage, number):
        drawn.append((stage, number))
        return Stream(seed, stage, number)

    monkeypatch.setattr("anisocert.engine.query.Stream", recording)
    x = torch.rand(2, 16)
    ac.Anisotropic().choose(Query(Network(few_coordinates, 2), ac.Gaussian(0.25), x, [7, 8], 0), PLAN)
    assert {stage for stage, _ in drawn} == {Stage.OPTIMIZE, Stage.PILOT}
    assert {number for _, number in drawn} == {7, 8}


def test_pilot_sizes_are_those_of_regions():
    theta = torch.rand(2, 3, 2, 3) + 0.1
    gap = np.array([[0.5, 1.0, 2.0], [0.1, 0.2, 0.3]])
    radius, proxy, _ = sizes(theta, gap, 2)
    for i in range(2):
        for c in range(3):
            region = ac.Gaussian(1.0).region(np.zeros((2, 3)), theta[i, c].numpy(), gap[i, c])
            np.testing.assert_allclose((radius[i, c], proxy[i, c]), (region.radius, region.proxy_radius), rtol=1e-6)


def test_candidates_of_one_input_see_the_same_noise(few_coordinates):
    pilot = Pilot(Query(Network(few_coordinates, 2), ac.Gaussian(0.25), torch.full((1, 16), 0.05), [3], 0), PLAN)
    counts = pilot.votes(torch.full((1, 4, 1), 0.25), 0.05)
    assert counts.sum() == 4 * 1024  # in blocks that pad no network call
    assert (counts == counts[:, :1]).all()


def test_what_replaces_another_candidate_must_be_better_beyond_chance(few_coordinates):
    pilot = Pilot(Query(Network(few_coordinates, 2), ac.Gaussian(0.25), torch.zeros(1, 16), [0], 0), PLAN)
    agreed = np.random.default_rng(0).integers(80, 100, (2, 8))
    of_top = np.stack([agreed[0], agreed[0], agreed[0] + agreed[1] - 85])  # the old one, an equal one, a noisy one
    counts = np.stack([of_top, 120 - of_top], -1)[None]
    top, zero = np.array([0]), np.array([0])
    plain, doubted = pilot.gaps(counts, top)[0], pilot.gaps(counts, top, replaced=zero)[0]
    assert plain[0] == plain[1] == doubted[1] < doubted[0]  # the one vote for nobody
    chance = math.ceil(2 * math.sqrt(8) * np.std(of_top[2] - of_top[0], ddof=1))
    lowered = counts.copy()
    lowered[0, 2, 0, 0] -= chance
    lowered[0, 2, 0, 1] += chance
    assert doubted[2] == pilot.gaps(lowered, top)[0, 2] < plain[2]
