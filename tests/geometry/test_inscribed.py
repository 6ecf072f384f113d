"""Inscribed balls, against brute force over their points and against exact arithmetic."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anisocert.errors import ArgumentError
from anisocert.geometry import Region, inscribed_radius
from anisocert.geometry.region import p_norm

NORMS = (1, 2, math.inf)
CASES = [(norm, ball) for norm in (1, 2) for ball in NORMS]


def on_sphere(rng, count, dim, ball):
    """Points of l_q length 1: random ones, sparse ones, all corners."""
    points = rng.normal(size=(count, dim)) * rng.integers(0, 2, (count, dim))
    corners = np.array([signs for signs in product((-1.0, 0.0, 1.0), repeat=dim) if any(signs)])
    points = np.concatenate([points[np.abs(points).max(1) > 0], corners])
    length = np.linalg.norm(points, ball, axis=1)
    return points / length[:, None]


@pytest.mark.parametrize(("norm", "ball"), CASES)
def test_no_point_of_the_ball_is_outside_and_a_larger_ball_has_one(norm, ball):
    rng = np.random.default_rng(norm)
    for _ in range(20):
        axes = np.exp(rng.normal(size=4))
        region = Region(rng.normal(size=4), axes, norm)
        radius = inscribed_radius(region, ball)
        unit = on_sphere(rng, 4000, 4, ball)
        unit = np.concatenate([unit, [1 / axes / np.linalg.norm(1 / axes, ball)]])  # normal of a facet
        largest = np.max(p_norm(np.abs(unit) / axes, norm))
        assert radius * largest <= 1
        assert radius * largest > 1 - 1e-12


@pytest.mark.parametrize(("norm", "ball"), CASES)
@given(axes=st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=8))
def test_rounded_down_also_where_numbers_are_extreme(norm, ball, axes):
    region = Region(np.zeros(len(axes)), axes, norm)
    radius = Fraction(inscribed_radius(region, ball))
    exact = [1 / Fraction(axis) for axis in region.axes.tolist()]
    if ball <= norm:
        assert radius == Fraction(min(axes))
    elif (norm, ball) == (1, math.inf):
        assert 1 - Fraction(1, 10**12) < radius * sum(exact) <= 1
    else:
        assert 1 - Fraction(1, 10**12) < radius**2 * sum(one**2 for one in exact) <= 1


def test_of_a_ball_and_of_any_shape():
    region = Region(np.zeros((3, 32, 32)), 0.5, 2)
    assert inscribed_radius(region, 2) == inscribed_radius(region, 1) == 0.5
    assert inscribed_radius(region, math.inf) == pytest.approx(0.5 / math.sqrt(3072), rel=1e-11)
    cross = Region(np.zeros((3, 32, 32)), 0.5, 1)
    assert inscribed_radius(cross, 1) == 0.5
    assert inscribed_radius(cross, 2) == pytest.approx(0.5 / math.sqrt(3072), rel=1e-11)
    assert inscribed_radius(cross, math.inf) == pytest.approx(0.5 / 3072, rel=1e-11)


@pytest.mark.parametrize("norm", [0, 3, -1, math.nan, "2"])
def test_other_norms_are_refused(norm):
    with pytest.raises(ArgumentError, match="expected 1, 2 or infinity"):
        inscribed_radius(Region(np.zeros(2), 1.0, 2), norm)
