from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from anisocert.errors import ArgumentError
from anisocert.geometry import Region, inner_copy, superset


def largest_gauge(a: Region, b: Region) -> float:
    """Largest gauge of a on b in two dimensions, by a fine walk along the boundary of b."""

    def at(angle):
        direction = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        direction /= np.linalg.norm(direction, ord=b.norm, axis=-1, keepdims=True)
        return a.gauges(np.atleast_2d(b.center + b.axes * direction))

    angles = np.linspace(0, 2 * np.pi, 721)
    best = angles[at(angles).argmax()]
    step = angles[1]
    near = minimize_scalar(lambda t: -at(t)[0], bounds=(best - step, best + step), options={"xatol": 1e-12})
    return max(-near.fun, at(angles).max())


@pytest.mark.parametrize("norm_a", [1, 2])
@pytest.mark.parametrize("norm_b", [1, 2])
def test_against_a_walk_along_the_boundary(norm_a, norm_b):
    rng = np.random.default_rng([norm_a, norm_b])
    for case in range(40):
        a = Region(rng.standard_normal(2), np.exp(rng.standard_normal(2)), norm_a)
        offset = np.zeros(2) if case % 4 == 0 else rng.uniform(-0.3, 0.3, 2)
        b = Region(a.center + offset * a.axes, a.axes * rng.uniform(0.1, 0.8, 2), norm_b)
        # Grow b until it just fits.
        low, high = 1e-6, 50.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if superset(a, b.scaled(middle)) else (low, middle)
        assert largest_gauge(a, b.scaled(low)) == pytest.approx(1.0, abs=2e-6)
        assert largest_gauge(a, b.scaled(low)) <= 1 + 1e-9
        assert not superset(a, b.scaled(low * (1 + 1e-9)))


def test_what_touches_from_inside_is_proven_in_fractions():
    """For cross-polytopes the gauges of the centre and of the longest axis add up to at most 1, exactly."""
    rng, proven, cases = np.random.default_rng(0), 0, 400
    for _ in range(cases):
        axes, share, t = np.exp(rng.standard_normal(5)), rng.dirichlet(np.ones(5)), rng.random()
        center = rng.standard_normal(5)
        a = Region(center, axes, 1)
        b = Region(center + share * t * axes, axes * ((1 - t) * (1 - rng.integers(0, 100) * 2.0**-53)), 1)
        if superset(a, b):
            proven += 1
            gauges = [
                (abs(Fraction(z) - Fraction(c)) / Fraction(s), Fraction(r) / Fraction(s))
                for z, c, s, r in zip(*(one.tolist() for one in (b.center, a.center, a.axes, b.axes)), strict=True)
            ]
            assert sum(offset for offset, _ in gauges) + max(ratio for _, ratio in gauges) <= 1
    assert 0 < proven < cases


@pytest.mark.parametrize("norm", [1, 2])
def test_one_centre_is_exact(norm):
    a = Region([0.1, 0.2, 0.3], [1.0, 1e-12, 1e12], norm)
    assert superset(a, a)
    for i in range(3):
        axes = a.axes.copy()
        axes[i] = np.nextafter(axes[i], np.inf)
        longer = Region(a.center, axes, norm)
        assert superset(longer, a)
        assert not superset(a, longer)
    assert superset(Region(a.center, a.axes, 2), Region(a.center, a.axes, 1))
    assert not superset(Region(a.center, a.axes, 1), Region(a.center, a.axes, 2))
    # Against a ball: the smallest axis decides.
    assert superset(a, Region(a.center, a.radius, norm))
    assert not superset(a, Region(a.center, a.radius * 1.0001, norm))


@pytest.mark.parametrize("norm", [1, 2])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_inner_copy_is_inside(norm, data):
    d = data.draw(st.integers(1, 5))
    numbers = st.lists(st.floats(-1, 1), min_size=d, max_size=d)
    axes = 10.0 ** (6 * np.array(data.draw(numbers)))
    a = Region(data.draw(numbers), axes, norm)
    x = a.center + a.axes * np.array(data.draw(numbers)) * data.draw(st.sampled_from([0.01, 0.5, 1.0])) / d
    gauge = a.gauge(x)
    if gauge > 1 - 1e-12:
        return
    copy = inner_copy(a, x)
    assert (copy.center == x).all()
    assert copy.axes / a.axes == pytest.approx(np.full(d, 1 - gauge), rel=1e-3, abs=1e-13)
    assert (copy.axes <= a.axes * (1 - gauge)).all()
    assert superset(a, copy)


def test_inner_copy_of_a_point_outside():
    a = Region([0.0, 0.0], [1.0, 2.0], 2)
    for x in ([1.0, 0.0], [3.0, 0.0]):
        with pytest.raises(ArgumentError, match=r"x: expected a point inside the region.*got gauge"):
            inner_copy(a, x)
    with pytest.raises(ArgumentError, match=r"x: expected shape \(2,\), got \(1,\)"):
        inner_copy(a, [0.0])
    assert inner_copy(a, [0.0, 0.0]).axes == pytest.approx(a.axes, rel=1e-13)


def test_superset_of_another_shape():
    with pytest.raises(ArgumentError, match=r"b: expected the shape of a, \(1,\), got \(2,\)"):
        superset(Region([0.0], 1.0, 2), Region([0.0, 0.0], 1.0, 2))


@pytest.mark.parametrize("norm", [1, 2])
def test_a_copy_is_rounded_down_where_numbers_are_sparse(norm: int) -> None:
    """The smallest positive number times 0.6 is itself, to nearest: that copy would not be inside."""
    a = Region([0.0, 0.0], [1.0, 5e-324], norm)
    with pytest.raises(ArgumentError, match="well inside"):
        inner_copy(a, [0.4, 0.0])
    b = Region([0.0, 0.0], [1.0, 20e-324], norm)
    assert superset(b, inner_copy(b, [0.4, 0.0]))
