"""What the search finds where the answer is known, in few dimensions, where no candidate but a careful one is fair."""

import copy

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.bounds import Plan
from anisocert.engine import Query
from anisocert.optimize.anisotropic import ASCENTS, _height, _idle, _peaks

IDLE, LIMIT, SIGMA, PLAN = 10, 6.0, 0.25, ac.Plan(n=20_000)


def sizes_of(half_space, method):
    network, weight, x = half_space
    found = ac.certify(network, x, smoothing=ac.Gaussian(SIGMA), method=method, plan=PLAN)
    assert len(found) == len(x)
    for c in found:  # in its own gauge the boundary is no nearer than the region's border
        assert np.linalg.norm(weight.numpy() * c.region.axes) <= 0.4
    return np.array([c.radius for c in found]), np.array([c.proxy_radius for c in found])


@pytest.fixture(scope="module")
def fixed(half_space):
    return sizes_of(half_space, ac.Fixed())


def test_idle_coordinates_are_found_and_kept(half_space, fixed):
    radius, proxy = sizes_of(half_space, ac.Anisotropic())
    assert np.median(radius) >= 0.99 * np.median(fixed[0])
    assert (radius >= 0.93 * fixed[0]).all()
    possible = LIMIT ** (IDLE / 20)
    assert np.median(proxy / fixed[1]) >= 2.0
    assert (proxy <= 1.1 * possible * fixed[1]).all()


def test_volume_is_preferred_where_asked_for(half_space, fixed):
    radius, proxy = sizes_of(half_space, ac.Anisotropic(prefer="volume"))
    _, ball = sizes_of(half_space, ac.Anisotropic())
    assert (radius > 0).all()
    assert (radius < 0.99 * fixed[0]).any()
    assert (proxy > 0.99 * ball).all()
    assert np.mean(proxy / ball) > 1.01


def test_idle_coordinates_are_found_where_soft_votes_mislead(half_space, fixed):
    """Flat probabilities hardly fall with noise in any coordinate, so that an ascent lets all of them grow."""
    network, _, x = half_space
    flat = copy.deepcopy(network.model)
    flat.sharpness = 0.5
    numerics = ac.Numerics("float32", compile=False)
    found = ac.certify(
        flat, x, num_classes=2, smoothing=ac.Gaussian(SIGMA), method=ac.Anisotropic(), plan=PLAN, numerics=numerics
    )
    assert np.median([c.proxy_radius for c in found] / fixed[1]) >= 2.0
    assert np.median([c.radius for c in found]) >= 0.99 * np.median(fixed[0])


@pytest.mark.parametrize("distance", [0.2, 0.5])
def test_isotropic_is_not_below_fixed(half_space, distance):
    network, weight, x = half_space
    x = x + (distance - 0.4) * weight
    radius = [
        np.array([c.radius for c in ac.certify(network, x, smoothing=ac.Gaussian(SIGMA), method=method, plan=PLAN)])
        for method in (ac.Fixed(), ac.Isotropic())
    ]
    assert np.median(radius[1]) >= 0.99 * np.median(radius[0])


def test_peaks_are_what_grew_most_and_nothing_else():
    round_ = torch.full((1, 6), 0.5)
    grown = round_ * torch.tensor([[1.0, 1.2, 2.0, 3.0, 7.0, 8.0]])
    half, three_quarters = _peaks(round_, grown)
    torch.testing.assert_close(half / round_, torch.tensor([[1.0, 1.0, 1.0, 3.0, 7.0, 8.0]]))
    torch.testing.assert_close(three_quarters / round_, torch.tensor([[1.0, 1.0, 1.0, 1.0, 7.0, 8.0]]))


def test_what_hardly_matters_is_let_grow_and_nothing_else():
    round_, grown = torch.full((2, 4), 0.5), torch.full((2, 4), 3.0)
    sensitivity = torch.tensor([[1.0, 0.1, 2e-4, 1e-5], [0.0, 0.0, 1e-9, 0.0]])
    grew = _idle(round_, grown, sensitivity) > 1
    assert grew.tolist() == [[False, False, False, True], [True, True, False, True]]


def test_the_objective_has_a_slope_for_gaps_of_any_sign():
    gap = torch.tensor([-1.0, 0.0, 0.0999, 0.1001, 2.0], requires_grad=True)
    height = _height(2.0, gap, torch.ones(5, 3))
    (slope,) = torch.autograd.grad(height.sum(), [gap])
    torch.testing.assert_close(slope[:3], torch.full((3,), 20.0))
    torch.testing.assert_close(slope[3:], 2.0 / gap.detach()[3:])
    assert (height.detach().diff() > 0).all()


@pytest.mark.parametrize("prefer", ASCENTS)
def test_pilot_votes_are_counted_as_told(half_space, monkeypatch, prefer):
    import anisocert.optimize._pilot as pilot_module

    counted, original = [], pilot_module.count_votes

    def counting(query, scales, stage, looks):
        counted.append(len(query) * looks[-1])
        return original(query, scales, stage, looks)

    monkeypatch.setattr(pilot_module, "count_votes", counting)
    network, _, x = half_space
    method, plan = ac.Anisotropic(prefer=prefer, isotropic=ac.Isotropic(limit=6.0)), Plan(n=5000)
    method.choose(Query(network, ac.Gaussian(SIGMA), x[:2], [0, 1], 0), plan)
    assert sum(counted) == 2 * method.pilot_votes(plan)


def test_a_search_costs_no_more_than_its_votes():
    method = ac.Anisotropic()
    assert [method.evaluations(Plan(n=n)) for n in (1000, 5000, 10_000, 16_000, 50_000, 100_000, 10**6)] == [
        1216, 2720, 3840, 3840, 12_000, 24_000, 24_000
    ]  # fmt: skip
