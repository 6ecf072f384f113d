import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anisocert import Region
from anisocert.report._beyond import beyond_ball


@given(
    st.integers(1, 2), st.lists(st.floats(0.01, 5), min_size=1, max_size=30), st.floats(0.0, 1.2), st.integers(0, 99)
)
def test_inside_the_region_and_outside_the_ball(norm, axes, share, seed):
    center = np.random.default_rng(seed).random(len(axes))
    region = Region(center, np.array(axes), norm)
    ball = share * region.enclosing_radius
    found = beyond_ball(region, ball, seed=seed)
    if found is None:
        assert share > 0.97  # 0.98 of the longest axis is always there
        return
    assert region.contains(found.point)
    assert np.linalg.norm((found.point - center).reshape(-1), norm) == pytest.approx(found.length)
    assert found.length > ball


def test_a_ball_has_nothing_beyond_itself():
    assert beyond_ball(Region(np.zeros(4), 0.5, 2), 0.5) is None


def test_a_change_is_spread_as_far_as_it_can():
    region = Region(np.full((2, 8), 0.5), np.linspace(0.2, 0.4, 16).reshape(2, 8), 2)
    assert (beyond_ball(region, 0.21).point != 0.5).all()


def test_values_stay_in_their_domain():
    region = Region(np.array([0.0, 1.0, 0.5]), np.array([0.3, 0.3, 0.3]), 2)
    found = beyond_ball(region, 0.1, domain=(0.0, 1.0))
    assert found.point.min() >= 0
    assert found.point.max() <= 1
