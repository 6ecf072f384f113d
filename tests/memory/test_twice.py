from fractions import Fraction

import numpy as np
import pytest

from anisocert.geometry import Region
from anisocert.memory import _inside, _twice
from anisocert.rounding import error_of_sum


def near_boundary(rng: np.random.Generator, norm: int, d: int) -> tuple[Region, np.ndarray]:
    """A region of any scale, and a point that float64 can hardly tell from its boundary."""
    scale = 10.0 ** rng.uniform(-30, 30)
    axes, center = 10.0 ** rng.uniform(-6, 6, d) * scale, rng.standard_normal(d) * scale * 10.0 ** rng.uniform(-3, 3)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction, norm)
    return Region(center, axes, norm), center + axes * direction * (1 + rng.choice([0, 1e-16, -1e-16, 1e-15, -1e-15]))


@pytest.mark.parametrize("norm", [1, 2])
def test_what_is_decided_is_so_in_fractions(norm):
    rng, decided = np.random.default_rng(norm), 0
    for _ in range(500):
        region, point = near_boundary(rng, norm, int(rng.integers(1, 40)))
        pairs = zip(point.tolist(), region.center.tolist(), region.axes.tolist(), strict=True)
        exact = sum(abs((Fraction(z) - Fraction(c)) / Fraction(s)) ** norm for z, c, s in pairs)
        found = _twice.inside(region, point)
        assert found is None or found == (exact <= 1)
        decided += found is not None
    assert decided > 480


@pytest.mark.parametrize("norm", [1, 2])
def test_the_boundary_itself_is_left_to_fractions_and_belongs_to_the_region(norm):
    region, tip = Region(np.array([0.5, 0.1]), np.array([3.0, 0.7]), norm), np.array([3.5, 0.1])
    assert _twice.inside(region, tip) is None
    assert _inside.inside(region, tip)


@pytest.mark.parametrize("towards", [0.0, 1.0])
def test_what_a_hundred_bits_cannot_tell_is_left_to_fractions(towards):
    """The two add up to 1, less 2^-106 or more 2^-105."""
    region, point = Region(np.zeros(2), np.ones(2), 1), np.array([1 - 2.0**-53, np.nextafter(2.0**-53, towards)])
    assert _twice.inside(region, point) is None
    assert _inside.inside(region, point) == (towards == 0)


@pytest.mark.parametrize("size", [2.0**500, 2.0**-500])
def test_numbers_that_may_overflow_or_vanish_are_left_to_fractions(size):
    region, point = Region(np.zeros(2), np.full(2, size), 1), np.array([size / 2, size / 2])
    assert _twice.inside(region, point) is None
    assert _inside.inside(region, point)
    assert not _inside.inside(region, np.array([size / 2, np.nextafter(size / 2, np.inf)]))


def test_of_an_image_no_fraction_is_needed_where_a_float_tells_nothing(monkeypatch):
    """Points on a boundary to ten digits are easily found: the exact way, at each, holds up everybody else."""
    rng, d = np.random.default_rng(0), 3 * 224 * 224
    center, direction = rng.random(d), rng.standard_normal(d)
    point = (center + 3 * direction / np.linalg.norm(direction)).astype(np.float32).astype(np.float64)
    region = Region(center, np.full(d, np.linalg.norm(point - center)), 2)
    assert abs(region.gauge(point) - 1) < error_of_sum(d)
    exact = _inside._gauge_at_most_1(region, point)
    monkeypatch.setattr(_inside, "_gauge_at_most_1", lambda *_: pytest.fail("asked for fractions"))
    assert _inside.inside(region, point) == exact
