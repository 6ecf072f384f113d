from fractions import Fraction

import numpy as np
import pytest
from fixtures.regions import exact_touch, random_region

from anisocert.errors import ArgumentError
from anisocert.geometry import (
    NoRoomError,
    Region,
    Regions,
    disjoint,
    distance,
    shrink_outside,
    superset,
    touch_scale,
)

NORMS = pytest.mark.parametrize("norm", [1, 2])


def meeting(rng, d, norm, spread=1.0):
    """A pair whose b reaches twice as far as it may."""
    while True:
        a, b = random_region(rng, d, norm, spread, 2.0), random_region(rng, d, norm, spread, 2.0)
        k = touch_scale(a, b)
        if k > 0:
            return a, b.scaled(2 * k)


def check(a, b, result):
    """The postcondition: b's centre, inside b, proven disjoint in both orders."""
    assert (result.center == b.center).all()
    assert result.norm == b.norm
    assert superset(b, result)
    for one in a:
        assert disjoint(one, result)
        assert disjoint(result, one)


@NORMS
@pytest.mark.parametrize("prefer", ["volume", "ball"])
@pytest.mark.parametrize("d", [1, 2, 3, 10, 50])
def test_one_obstacle(norm, prefer, d):
    rng = np.random.default_rng([norm, d])
    for _ in range(6):
        a, b = meeting(rng, d, norm)
        result = shrink_outside(a, b, prefer=prefer)
        check([a], b, result)
        assert exact_touch(a, result) > 1
        copy, ball = b.proxy_radius / 2, min(distance(a, b.center), b.radius)
        if prefer == "volume":
            assert result.proxy_radius >= max(copy, ball) * (1 - 1e-5)
        else:
            assert result.radius >= max(b.radius / 2, ball) * (1 - 1e-5)
        # Nothing is wasted: a little larger in all directions would meet a, or leave b.
        if (result.axes < b.axes * (1 - 1e-3)).all():
            assert touch_scale(a, result) < 1.01


@NORMS
def test_planes_beat_copy_and_ball_in_high_dimension(norm):
    rng = np.random.default_rng(norm)
    a, b = meeting(rng, 3072, norm)
    result = shrink_outside(a, b)
    check([a], b, result)
    copy, ball = b.proxy_radius * touch_scale(a, b), min(distance(a, b.center), b.radius)
    assert result.proxy_radius > 1.8 * max(copy, ball)
    assert shrink_outside(a, b, prefer="ball").radius >= result.radius


@NORMS
@pytest.mark.parametrize(("d", "count"), [(1, 2), (2, 6), (5, 40), (30, 200)])
def test_many_obstacles(norm, d, count):
    rng = np.random.default_rng([norm, d])
    b = Region(np.zeros(d), np.exp(rng.standard_normal(d)), norm)
    centers = rng.standard_normal((count, d))
    centers *= (rng.uniform(0.5, 4.0, count) / b.gauges(centers))[:, None]
    axes = np.exp(rng.standard_normal((count, d)))
    many = Regions(centers, axes, norm)
    # Obstacles that do not cover b's centre: from just outside it to far away.
    axes *= (many.gauges(b.center) * rng.uniform(0.3, 0.99, count))[:, None]
    met = ~disjoint(many, b)
    assert met.sum() > 0
    singles = [many[i] for i in range(count)]
    for prefer in ("volume", "ball"):
        result = shrink_outside(many, b, prefer=prefer)
        check(singles, b, result)
    copy = b.proxy_radius * min(touch_scale(many, b).min(), 1.0)
    ball = min(distance(many, b.center).min(), b.radius)
    assert shrink_outside(many, b).proxy_radius >= max(copy, ball) * (1 - 1e-5)
    assert shrink_outside(many, b, prefer="ball").radius >= ball * (1 - 1e-5)
    # Only those that b meets matter.
    assert shrink_outside(many[met], b) == shrink_outside(many, b)


@NORMS
def test_b_is_returned_where_nothing_is_in_the_way(norm):
    b = Region([0.0, 0.0], 1.0, norm)
    assert shrink_outside(Region([5.0, 0.0], 1.0, norm), b) is b
    assert shrink_outside(Regions(np.zeros((0, 2)), np.zeros((0, 2)), norm), b) is b


@NORMS
def test_touching_regions_are_shrunk_a_little(norm):
    a, b = Region([0.0, 0.0], 1.0, norm), Region([3.0, 0.0], [2.0, 5.0], norm)
    result = shrink_outside(a, b)
    check([a], b, result)
    assert result.proxy_radius > 0.999 * b.proxy_radius


@NORMS
@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e12, 1e150])
def test_units_do_not_matter(norm, scale):
    rng = np.random.default_rng(norm)
    a, b = meeting(rng, 8, norm)
    big_a, big_b = (Region(r.center * scale, r.axes * scale, norm) for r in (a, b))
    result = shrink_outside(big_a, big_b)
    check([big_a], big_b, result)
    assert result.proxy_radius == pytest.approx(scale * shrink_outside(a, b).proxy_radius, rel=1e-6)


@NORMS
def test_axes_that_differ_by_twelve_orders(norm):
    rng = np.random.default_rng(norm)
    for d in (2, 5, 20):
        for _ in range(10):
            a = Region(np.zeros(d), 10.0 ** rng.uniform(-6, 6, d), norm)
            b = Region(a.axes * rng.standard_normal(d) * 2, 10.0 ** rng.uniform(-6, 6, d), norm)
            if touch_scale(a, b) > 0:
                result = shrink_outside(a, b)
                check([a], b, result)
                assert exact_touch(a, result) > 1


@NORMS
@pytest.mark.parametrize("excess", [1e-13, 1e-10, 1e-6])
def test_a_centre_just_outside(norm, excess):
    a = Region([0.0, 0.0, 0.0], [1.0, 2.0, 4.0], norm)
    b = Region([1.0 + excess, 0.0, 0.0], [1.0, 1.0, 1.0], norm)
    result = shrink_outside(a, b)
    check([a], b, result)
    assert exact_touch(a, result) > 1
    assert Fraction(result.axes[0]) <= Fraction(b.center[0]) - 1


@NORMS
def test_a_centre_inside(norm):
    a = Region([0.0, 0.0], [1.0, 2.0], norm)
    for point in ([0.0, 0.0], [0.5, 0.1], [1.0, 0.0], [1.0 + 2**-52, 0.0]):
        with pytest.raises(NoRoomError, match=r"b: expected a centre outside a"):
            shrink_outside(a, Region(point, 1.0, norm))
    many = Regions([[9.0, 9.0], [3.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]], norm)
    with pytest.raises(ArgumentError, match="inside region 1 of a"):
        shrink_outside(many, Region([2.5, 0.0], 1.0, norm))


@NORMS
def test_imagenet_size(norm):
    rng = np.random.default_rng(norm)
    d = 150_528
    a = Region(np.zeros(d), rng.uniform(0.5, 1.5, d), norm)
    b = Region(rng.standard_normal(d), rng.uniform(0.5, 1.5, d), norm)
    b = b.scaled(touch_scale(a, b) * 1.2)
    result = shrink_outside(a, b)
    check([a], b, result)
    assert result.proxy_radius > 0.99 * b.proxy_radius


def test_bad_preference():
    b = Region([0.0], 1.0, 2)
    with pytest.raises(ArgumentError, match="prefer: expected 'volume' or 'ball', got 'area'"):
        shrink_outside(b, b, prefer="area")
