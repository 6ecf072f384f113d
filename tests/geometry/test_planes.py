import numpy as np
import pytest
from fixtures.regions import random_region

from anisocert.geometry import Region, touch_scale
from anisocert.geometry._planes import _ellipsoid_beside, crosspolytope_cuts, ellipsoid_cuts


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_water_filling_is_the_largest_volume_under_the_plane(d):
    rng = np.random.default_rng(d)
    for _ in range(50):
        normal, b = rng.uniform(0, 1, d) * (rng.random(d) > 0.2), np.exp(rng.standard_normal(d))
        normal[0] = 1.0
        whole = np.linalg.norm(normal * b)
        offset = whole * rng.uniform(0.05, 1.2)
        s = _ellipsoid_beside(normal, offset, b)
        assert (s <= b).all()
        assert (s > 0).all()
        assert np.linalg.norm(normal * s) == pytest.approx(min(offset, whole), rel=1e-12)
        # First-order optimality: what is cut has one common reach, and what is whole reaches less.
        cut = s < b * (1 - 1e-12)
        if cut.any():
            level = (normal * s)[cut]
            assert level == pytest.approx(np.full(cut.sum(), level[0]), rel=1e-9)
            assert ((normal * s)[~cut] <= level[0] * (1 + 1e-9)).all()


@pytest.mark.parametrize(("norm", "cuts"), [(1, crosspolytope_cuts), (2, ellipsoid_cuts)])
@pytest.mark.parametrize("d", [1, 2, 10, 200])
def test_every_cut_stays_outside_the_obstacle_and_inside_b(norm, cuts, d):
    rng = np.random.default_rng([norm, d])
    for _ in range(5):
        a = random_region(rng, d, norm, 1.0, 2.0)
        b = random_region(rng, d, norm, 1.0, 2.0)
        k = touch_scale(a, b)
        if k == 0:
            continue
        b = b.scaled(2 * k)
        left = list(cuts(np.abs(a.center - b.center), a.axes, b.axes))
        assert len(left) >= 2
        for axes in left:
            assert (axes <= b.axes).all()
            assert touch_scale(a, Region(b.center, axes, norm)) >= 1 - 1e-9
        # The plane at the touch point alone already leaves at least the copy of b.
        assert max(np.log(axes).sum() for axes in left) >= np.log(b.axes / 2).sum() - 1e-9
