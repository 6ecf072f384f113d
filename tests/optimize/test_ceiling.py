"""Theta within reach: the ceiling over an ascent, and a finished theta that is made to fit."""

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.optimize._ceiling import Ceiling, Limits, fitted
from anisocert.optimize.reach import extent


def limits(upper, farthest, norm, walls=torch.inf):
    return Limits(upper, farthest, torch.full((len(farthest), 1, 1), walls), norm)


@pytest.mark.parametrize("norm", [1, 2])
def test_a_theta_that_grows_on_and_on_stays_near_its_reach(norm):
    farthest = torch.tensor([1.0, 3.0, torch.inf])
    ceiling, theta, gap = (
        Ceiling(limits(50.0, farthest, norm)),
        torch.full((3, 4, 5), 0.1),
        torch.tensor([0.5, 2.0, 2.0]),
    )
    for _ in range(100):
        theta = ceiling.over(theta * 1.3, gap)
    reached = extent(theta.flatten(1), norm) * gap
    assert (reached[:2] < 1.3 * farthest[:2]).all()
    assert (reached[:2] > 0.7 * farthest[:2]).all()
    assert (theta[2] == 50.0).all()


def test_a_ceiling_does_not_know_other_inputs():
    farthest, gap = torch.tensor([1.0, 3.0]), torch.tensor([0.5, 2.0])
    together, alone = Ceiling(limits(9.0, farthest, 2)), Ceiling(limits(9.0, farthest[1:], 2))
    both, one = torch.rand(2, 2, 3), None
    for _ in range(20):
        one = alone.over((both[1:] if one is None else one) * 1.2, gap[1:])
        both = together.over(both * 1.2, gap)
    assert torch.equal(both[1:], one)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_largest_values_are_lowered_and_no_more_than_needed(norm):
    theta = torch.rand(3, 2, 40, generator=torch.Generator().manual_seed(0)) + 0.1
    theta[..., :3] *= 20
    most = extent(theta, norm) * torch.tensor([0.6, 1.0, 1.5]).view(3, 1)
    found = fitted(theta, most, norm)
    assert torch.equal(found[1:], theta[1:])
    torch.testing.assert_close(extent(found[0], norm), most[0], rtol=1e-3, atol=0)
    assert torch.equal(found[0, :, 3:], theta[0, :, 3:])
    assert (found[0, :, :3] < theta[0, :, :3]).any(1).all()


@pytest.mark.parametrize("norm", [1, 2])
def test_a_shape_without_few_large_values_is_scaled(norm):
    theta = torch.rand(2, 40, generator=torch.Generator().manual_seed(0)) + 0.5
    most = extent(theta, norm) * torch.tensor([0.5, 0.8])
    found = fitted(theta, most, norm)
    torch.testing.assert_close(extent(found, norm), most)
    ratio = found / theta
    most_kept = ratio.amax(1, keepdim=True)
    assert ((ratio > 0.999 * most_kept).sum(1) >= 36).all()
    assert (ratio > 0.4).all()


def test_no_semi_axis_goes_beyond_the_farther_wall():
    ceiling, gap = Ceiling(limits(50.0, torch.tensor([torch.inf]), 2, walls=0.8)), torch.tensor([2.0])
    theta = torch.full((1, 2, 3), 0.1)
    for _ in range(30):
        theta = ceiling.over(theta * 1.3, gap)
    torch.testing.assert_close(theta * 2.0, torch.full((1, 2, 3), 0.8))
    candidates = torch.tensor([0.1, 0.3, 0.9]).view(1, 3, 1, 1).expand(1, 3, 2, 3)
    found = ceiling.limits.fit(candidates, np.array([[2.0, 2.0, 1.0]]), room=1.0)
    torch.testing.assert_close(found[0, :, 0, 0], torch.tensor([0.1, 0.3, 0.8]))


def test_a_blank_image_has_no_reach_and_still_a_theta():
    """The search measures candidates with votes, and there is no noise of scale 0."""
    blank = limits(9.0, torch.tensor([0.0]), 2)
    assert (blank.fit(torch.ones(1, 2, 3, 4), np.ones((1, 2)), 0.97) > 0).all()


def test_a_blank_image_half_a_step_off_the_grid(smooth):
    """Every draw of a candidate without noise would lie on a border between two multiples."""
    x = np.full((1, 2, 3), 0.5 + 2.0**-13, np.float32)
    (found,) = ac.certify(smooth, x, num_classes=3, smoothing=ac.Gaussian(0.25), method=ac.Anisotropic(),
                          plan=ac.Plan(n=500))  # fmt: skip
    assert found.theta.min() > 0
