import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.geometry import Region


@pytest.mark.parametrize(("norm", "expected"), [(2, math.hypot(0.5, 2.0)), (1, 2.5)])
def test_gauge_by_hand(norm, expected):
    region = Region([[1.0, 2.0]], [[2.0, 0.5]], norm)
    assert region.gauge([[2.0, 3.0]]) == pytest.approx(expected, rel=1e-15)
    assert region.gauges([[[2.0, 3.0]], [[1.0, 2.0]]]).tolist() == pytest.approx([expected, 0.0])


@pytest.mark.parametrize("norm", [1, 2])
def test_boundary_belongs_to_the_region(norm):
    region = Region([0.5, 0.0, -1.0], [2.0, 0.25, 2.0**-10], norm)
    for i in range(3):
        corner = region.center.copy()
        corner[i] += region.axes[i]
        assert region.contains(corner)
        corner[i] = np.nextafter(corner[i], 10.0)
        assert not region.contains(corner)


@pytest.mark.parametrize("scale", [1e-150, 1e-300, 1.0, 1e150, 1e299])
def test_gauge_does_not_over_or_underflow(scale):
    region = Region(np.zeros(2), np.full(2, scale), 2)
    assert region.gauge(np.array([0.6, 0.8]) * scale) == pytest.approx(1.0, rel=1e-15)
    assert region.gauge([0.0, 0.0]) == 0.0
    assert not math.isnan(Region([0.0], [1e-300], 2).gauge([1e300]))


def test_radii():
    axes = np.array([[0.5, 2.0], [1.0, 4.0]])
    region = Region(np.zeros((2, 2)), axes, 2)
    assert (region.radius, region.enclosing_radius, region.dim) == (0.5, 4.0, 4)
    assert region.proxy_radius == pytest.approx(4.0 ** (1 / 4), rel=1e-14)
    assert region.scaled(3.0).proxy_radius == pytest.approx(3 * region.proxy_radius, rel=1e-14)
    assert Region(np.zeros(150_528), 0.1, 1).proxy_radius == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_volume_against_monte_carlo(norm, d):
    rng = np.random.default_rng(d)
    region = Region(rng.standard_normal(d), rng.uniform(0.5, 2.0, d), norm)
    points = region.center + region.axes * rng.uniform(-1, 1, (200_000, d))
    share = (region.gauges(points) <= 1).mean()
    box = float(np.prod(2 * region.axes))
    error = 5 * math.sqrt(share * (1 - share) / len(points)) + 1e-12
    assert math.exp(region.log_volume) / box == pytest.approx(share, abs=error)


def test_volumes_in_closed_form():
    assert math.exp(Region([0, 0, 0], [1.0, 2.0, 3.0], 2).log_volume) == pytest.approx(4 / 3 * math.pi * 6)
    assert math.exp(Region([0, 0, 0], [1.0, 2.0, 3.0], 1).log_volume) == pytest.approx(8 / 6 * 6)
    assert math.isfinite(Region(np.zeros(150_528), 1e-3, 2).log_volume)


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-100, 1e100), st.integers(1, 6), st.sampled_from([1, 2]))
def test_scaled(k, d, norm):
    region = Region(np.zeros(d), np.arange(1.0, d + 1), norm)
    assert region.scaled(1.0) == region
    corner = np.zeros(d)
    corner[-1] = region.scaled(k).axes[-1]
    assert region.gauge(corner) == pytest.approx(k, rel=1e-14)


def test_inputs_are_copied_to_read_only_float64():
    center = np.zeros(3, dtype=np.float32)
    region = Region(center, torch.tensor([1.0, 2.0, 3.0]), 2)
    center[0] = 9
    assert region.center[0] == 0
    assert region.axes.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        region.axes[0] = 5
    with pytest.raises(AttributeError):
        region.norm = 1
    assert Region(3.0, 2.0, 1).gauge(4.0) == 0.5


def test_equality_hash_and_pickle():
    one, same, other = Region([0.0, 1.0], 2.0, 2), Region([-0.0, 1], [2, 2], 2.0), Region([0.0, 1.0], 2.0, 1)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "region"
    assert pickle.loads(pickle.dumps(one)) == one
    assert "norm=2" in repr(one)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 0], [1, -1], 2), r"axes: expected numbers above 0, got -1"),
        (([0, 0], [1, 0], 2), r"axes: expected numbers above 0, got 0"),
        (([0, 0], [1, np.nan], 2), r"axes: expected finite numbers.*got nan"),
        (([0, 0], [1, np.inf], 2), r"axes: expected finite numbers.*got inf"),
        (([np.nan, 0], [1, 1], 2), r"center: expected finite numbers.*got nan"),
        (([-np.inf, 0], [1, 1], 2), r"center: expected finite numbers.*got -inf"),
        (([0, 0], [1, 1, 1], 2), r"axes: expected the shape of center, \(2,\), or a scalar, got \(3,\)"),
        (([0, 0], [1, 1], 3), r"norm: expected 1 or 2, got 3"),
        (([0, 0], [1, 1], "l2"), r"norm: expected 1 or 2, got 'l2'"),
        (([0, 0], [1, 1], True), r"norm: expected 1 or 2, got True"),
        (([0, 0], [1, 1], None), r"norm: expected 1 or 2, got None"),
        (([0, 0], ["a", "b"], 1), r"axes: expected an array of real numbers"),
        (([0, 1j], [1, 1], 1), r"center: expected an array of real numbers"),
        (([], [], 1), r"center: expected at least one coordinate"),
        ((torch.zeros(2, requires_grad=True), [1, 1], 1), r"center: expected an array of numbers, got Tensor"),
    ],
)
def test_bad_regions(arguments, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        Region(*arguments)
    assert isinstance(caught.value, AnisocertError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.gauge([0.0]), r"z: expected shape \(2,\), got \(1,\)"),
        (lambda r: r.gauge([np.nan, 0.0]), r"z: expected finite"),
        (lambda r: r.gauges([0.0, 0.0]), r"points: expected shape \(n, 2\), got \(2,\)"),
        (lambda r: r.scaled(0.0), r"k: expected a finite number above 0, got 0.0"),
        (lambda r: r.scaled(math.nan), r"k: expected a finite number above 0, got nan"),
        (lambda r: r.scaled(1e301), r"axes: expected finite numbers"),
    ],
)
def test_bad_calls(call, message):
    with pytest.raises(ArgumentError, match=message):
        call(Region([0.0, 0.0], [1.0, 2.0], 2))


@pytest.mark.parametrize("norm", [1, 2])
def test_what_lies_in_a_box_is_measured_by_the_sides_around_it(norm):
    region = Region([0.5, 0.1, 0.9], [0.3, 0.4, 2.0], norm)
    assert region.proxy_radius_inside(-2, 3) == region.proxy_radius
    # sides: 0.6 whole, from 0 to 0.5, and all of the box
    assert region.proxy_radius_inside(0, 1) == pytest.approx((0.3 * 0.25 * 0.5) ** (1 / 3), rel=1e-15)
    with pytest.raises(ArgumentError, match=r"low, high: expected a box around the centre, got 0\.2, 1"):
        region.proxy_radius_inside(0.2, 1)
