"""The domain of valid inputs: what is counted, what is refused, and that the search spends nothing beyond it."""

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.optimize.domain import check_domain, proxy_inside

BOX = (-1.5, 1.5)


@pytest.mark.parametrize("domain", [(1.0, 0.0), (0.0, 0.0), (0.0, np.inf), (np.nan, 1.0), (0.0,), (0.0, 1.0, 2.0)])
def test_what_is_no_range(domain):
    with pytest.raises(ArgumentError, match="expected domain as two numbers, low < high, got"):
        check_domain(domain)
    with pytest.raises(ArgumentError, match="expected domain as two numbers"):
        ac.Anisotropic(domain=domain)


def test_inputs_outside_are_refused():
    check_domain((0.0, 1.0), torch.tensor([[0.0, 1.0]]))
    with pytest.raises(ArgumentError, match="expected inputs in their domain, 0 to 1, got values from 0 to 255"):
        check_domain((0.0, 1.0), torch.tensor([[0.0, 255.0]]))


def test_candidates_are_measured_as_regions_are():
    generator = torch.Generator().manual_seed(0)
    x, theta = torch.rand(2, 3, 4, generator=generator), torch.rand(2, 5, 3, 4, generator=generator) + 0.1
    gap = np.linspace(0.2, 2.0, 10).reshape(2, 5)
    found = proxy_inside(theta, gap, x, (0.0, 1.0))
    for i, j in np.ndindex(2, 5):
        region = Region(x[i].double(), theta[i, j].double() * gap[i, j], 2)
        assert found[i, j] == pytest.approx(region.proxy_radius_inside(0.0, 1.0), rel=1e-12)


def test_the_search_spends_nothing_outside(half_space):
    """Ten coordinates are idle, so that without a domain they would be as large as they may, beyond the walls."""
    network, _, x = half_space
    x = x[:6].clamp(*BOX)

    def found(domain):
        method = ac.Anisotropic(domain=domain, isotropic=ac.Isotropic(limit=6.0))
        return ac.certify(network, x, smoothing=ac.Gaussian(0.25), method=method, plan=ac.Plan(n=20_000))

    free, bounded = found(None), found(BOX)
    walls = torch.maximum(x - BOX[0], BOX[1] - x).numpy()
    beyond = [np.mean([(c.region.axes > 1.1 * wall).mean() for c, wall in zip(some, walls, strict=True)])
              for some in (free, bounded)]  # fmt: skip
    assert beyond[0] > 0.2
    assert beyond[1] < 0.01
    inside = [np.median([c.region.proxy_radius_inside(*BOX) for c in some]) for some in (free, bounded)]
    assert inside[1] > 0.93 * inside[0]
