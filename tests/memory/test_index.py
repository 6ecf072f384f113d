"""The index against the plain loop: it may keep too many rows, never too few."""

import tracemalloc
from fractions import Fraction
from time import perf_counter

import numpy as np
import pytest

from anisocert.geometry import Region, Regions, disjoint
from anisocert.memory import _index
from anisocert.memory._float_rows import FloatRows
from anisocert.memory._index import Index
from anisocert.memory._inside import _gauge_at_most_1, inside
from anisocert.memory._projection import COORDINATE_ERROR, Projection


def random_regions(rng, count, d, norm, unit=1.0, size=0.3):
    """Centres in a few strong directions, axes of very different length, some balls."""
    strong = rng.standard_normal((3, d)) * 3
    for _ in range(count):
        center = (rng.standard_normal(3) @ strong + rng.standard_normal(d)) * unit
        axes = np.exp(rng.standard_normal(d)) * size * unit * np.sqrt(d)
        yield Region(center, axes if rng.random() < 0.7 else axes[0], norm)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("d", "count"), [(1, 300), (2, 300), (40, 300), (200, 80)])
@pytest.mark.parametrize("unit", [1.0, 1e-30, 1e30, 1e200])
def test_against_the_plain_loop(norm, d, count, unit):
    rng = np.random.default_rng([norm, d])
    regions = list(random_regions(rng, count, d, norm, unit))
    index, classes = Index((d,), norm), rng.integers(0, 3, count)
    for i, region in enumerate(regions):
        index.append(i + 100, int(classes[i]), region)
    assert len(index) == count
    excluded, stack = 0, Regions(np.stack([r.center for r in regions]), np.stack([r.axes for r in regions]), norm)
    for one in random_regions(rng, 8, d, norm, unit, 0.1):
        near = index.near(one.center, one.enclosing_radius, 1)
        meeting, containing = index.meeting(one, 1, near), index.containing(one.center, near)
        assert index.entries(near) == (near + 100).tolist()
        assert set(np.flatnonzero(~disjoint(stack, one) & (classes != 1))) <= set(meeting)
        covering = np.flatnonzero(stack.gauges(one.center) <= 1 + 1e-9)
        assert set(covering) <= set(containing)
        assert set(covering) <= set(index.near(one.center))
        excluded += count - len(near)
    if unit == 1.0 and d > 1:
        assert excluded > 0


def test_a_point_within_rounding_of_the_boundary_is_not_excluded():
    """In floats the gauge of some of them is above 1, in fractions none."""
    rng, rounded = np.random.default_rng(7), 0
    for _ in range(200):
        point = rng.standard_normal(7).astype(np.float32).astype(float)
        exact, radius = sum(Fraction(one) ** 2 for one in point.tolist()), np.linalg.norm(point) * (1 - 1e-15)
        while Fraction(float(radius)) ** 2 < exact:
            radius = np.nextafter(radius, np.inf)
        region, index = Region(np.zeros(7), radius, 2), Index((7,), 2)
        index.append(0, 0, region)
        rounded += region.gauge(point) > 1
        assert inside(region, point)
        assert index.containing(point, index.near(point)).tolist() == [0]
    assert rounded > 0


def test_fitting_a_projection_takes_bounded_memory(monkeypatch):
    """512 inputs of ImageNet's size would take 0.6 GB, several times over; what is excluded stays sound."""
    d, count, values = 4000, 300, 64 * 4000
    regions = list(random_regions(np.random.default_rng(0), count, d, 2))
    monkeypatch.setattr(_index, "_VALUES", values)
    index = Index((d,), 2)
    for i, region in enumerate(regions[:255]):
        index.append(i, i % 3, region)
    tracemalloc.start()
    index.append(255, 0, regions[255])  # the second fit
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert index._shadow is not None
    assert peak < 8 * 6 * values  # a few copies of a sample, or of rows that are projected together, in float64
    assert index._shadow.nbytes > 64 * d * 8  # the basis counts
    for i, region in enumerate(regions[256:]):
        index.append(256 + i, i % 3, region)
    stack = Regions(np.stack([r.center for r in regions]), np.stack([r.axes for r in regions]), 2)
    for one in regions[::50]:
        assert set(np.flatnonzero(stack.gauges(one.center) <= 1 + 1e-9)) <= set(index.near(one.center))


@pytest.mark.parametrize("d", [1, 3, 100])
def test_projection_never_makes_farther(d):
    rng = np.random.default_rng(d)
    sample = rng.standard_normal((90, d)) * np.geomspace(10, 0.01, d)
    projection = Projection.of(sample)
    points = np.concatenate([sample * 5, sample + 1e-9])
    coordinates, sizes = projection(points)
    assert coordinates.shape == (180, min(d, 64) + 1)
    for i in rng.integers(0, 180, 40):
        true = np.linalg.norm(points - points[i], axis=1)
        seen = np.linalg.norm(coordinates.astype(float) - coordinates[i], axis=1)
        assert (seen <= true * (1 + 1e-9) + COORDINATE_ERROR * (sizes + sizes[i])).all()


@pytest.mark.parametrize("sample", [np.zeros((70, 40)), np.ones((70, 40)), np.full((70, 3), 1e300)])
def test_projection_of_equal_points(sample):
    basis = Projection.of(sample).basis
    assert np.allclose(basis @ basis.T, np.eye(len(basis)))


def test_truncate_forgets():
    rng = np.random.default_rng(0)
    regions = list(random_regions(rng, 200, 5, 2))
    index, other = Index((5,), 2), Index((5,), 2)
    for i, region in enumerate(regions):
        index.append(i, 0, region)
    index.truncate(100)
    for i, region in enumerate(regions[:100]):
        other.append(i, 0, region)
    for i, region in enumerate(regions[150:]):
        index.append(i, 1, region)
        other.append(i, 1, region)
    assert len(index) == len(other) == 150
    rows = np.arange(150)
    for mine, theirs in zip(index.regions(rows).blocks(), other.regions(rows).blocks(), strict=True):
        assert np.array_equal(mine[1], theirs[1])
        assert np.array_equal(mine[2], theirs[2])
    assert index.nbytes > 150 * 5 * 4


def test_an_interrupted_append_leaves_no_trace(monkeypatch):
    rng = np.random.default_rng(0)
    regions = list(random_regions(rng, 130, 5, 2))
    index = Index((5,), 2)
    for i, region in enumerate(regions):
        real = FloatRows.append
        if i % 10 == 3:
            monkeypatch.setattr(FloatRows, "append", lambda self, row, real=real: real(self, row) or 1 / 0)
            with pytest.raises(ZeroDivisionError):
                index.append(i, 0, region)
            monkeypatch.undo()
        index.append(i, 0, region)
    for i, region in enumerate(regions):
        stored = index.regions(np.array([i]))[0]
        assert np.array_equal(stored.center, region.center)
        assert (stored.axes >= region.axes).all()
        assert stored.axes == pytest.approx(region.axes, rel=1.3e-7)


@pytest.mark.parametrize("rounding", ["exact", "up"])
def test_float_rows(rounding):
    rows = FloatRows(1 << 20, rounding)  # four a piece
    wanted = [np.full(1 << 20, value) for value in (0.5, 1.0, 1 / 3, 1e-300, 2.0, 3.0, 1e300, 4.0, 1e-46)]
    for row in wanted:
        rows.append(row)
    for i, row in enumerate(wanted):
        if rounding == "exact":
            assert np.array_equal(rows[i], row)
        else:
            assert (rows[i] >= row).all()
            assert rows[i][0] <= max(row[0] * (1 + 1.3e-7), 1.5e-45)
    assert np.array_equal(rows[np.array([7, 0])][:, 0], [4.0, 0.5])
    # Only the pieces with rows that float32 cannot hold take twice the space.
    assert rows.nbytes == (1 << 20) * (4 * 8 + 4 * 8 + 8 if rounding == "exact" else 4 * 4 + 4 * 8 + 4)


@pytest.mark.parametrize(
    ("norm", "axes", "point", "answer"),
    [
        (2, [1.0, 1.0], [0.6, 0.8], False),  # 0.6 and 0.8 are a little too large as float64
        (2, [5.0, 5.0], [3.0, 4.0], True),
        (1, [1.0, 1.0], [0.5, 0.5], True),
        (1, [1.0, 1.0], [0.3, 0.7], True),  # 0.3 is below and 0.7 is below
        (1, [10.0, 10.0, 10.0], [1.0, 2.0, 7.0], True),
        (1, [3.0, 7.0], [1.0, 7.0 * 2 / 3], False),
        (2, [1.0, 1.0], [1.0, 1e-200], False),
        (2, [1.0, 1.0], [np.nextafter(1.0, 0.0), 1e-9], True),
    ],
)
def test_inside_is_exact(norm, axes, point, answer):
    total = sum((abs(Fraction(z)) / Fraction(s)) ** norm for z, s in zip(point, axes, strict=True))
    assert (total <= 1) == answer, float(total - 1)
    assert inside(Region(np.zeros(len(axes)), axes, norm), np.array(point)) == answer


@pytest.mark.parametrize("norm", [1, 2])
def test_inside_is_exact_where_every_axis_counts(norm):
    """Fractions of halves and thirds of unequal axes that add up to 1, and then not quite; the oracle adds them up."""
    rng = np.random.default_rng(norm)
    for _ in range(300):
        d = int(rng.integers(2, 7))
        axes, z = 3.0 * rng.integers(1, 9, d), rng.integers(0, 9, d).astype(float)
        z[0] = rng.choice([0.0, 1e-40])
        exact = sum((Fraction(abs(a)) / Fraction(s)) ** norm for a, s in zip(z, axes, strict=True))
        assert _gauge_at_most_1(Region(np.zeros(d), axes, norm), z) == (exact <= 1)


def test_a_point_on_the_boundary_keeps_nobody_waiting():
    """Sums of 65,536 fractions take minutes where each brings a denominator of its own."""
    axes = np.random.default_rng(0).uniform(0.5, 1.0, 3 * 224 * 224).astype(np.float32).astype(float)
    region, z, before = Region(np.zeros(axes.size), axes, 2), np.zeros(axes.size), perf_counter()
    z[: 2**16] = axes[: 2**16] / 2**8
    assert inside(region, z)
    z[-1] = 1e-30
    assert not inside(region, z)
    assert perf_counter() - before < 30
