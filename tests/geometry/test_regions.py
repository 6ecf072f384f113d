import numpy as np
import pytest

from anisocert.errors import ArgumentError
from anisocert.geometry import Region, Regions, disjoint, distance, touch_scale
from anisocert.geometry import regions as module


def stack(norm, dtype=np.float64):
    centers, logs = np.random.default_rng(0).standard_normal((2, 37, 2, 3))
    return centers.astype(dtype), np.exp(logs - 1).astype(dtype), norm


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [1, 50, 1 << 16])
def test_many_at_once_is_one_by_one(norm, dtype, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    centers, axes, _ = stack(norm, dtype=dtype)
    many = Regions(centers, axes, norm)
    singles = [Region(c, s, norm) for c, s in zip(centers, axes, strict=True)]
    for b in (Region(np.full((2, 3), 0.3), np.full((2, 3), 0.4), norm), singles[5], singles[5].scaled(3)):
        assert disjoint(many, b).tolist() == [disjoint(a, b) for a in singles]
        assert touch_scale(many, b).tolist() == [touch_scale(a, b) for a in singles]
        assert distance(many, b.center).tolist() == [distance(a, b.center) for a in singles]
        assert many.gauges(b.center).tolist() == [a.gauge(b.center) for a in singles]
    assert 0 < disjoint(many, Region(np.full((2, 3), 0.3), 0.5 if norm == 2 else 1.5, norm)).sum() < 37


def test_selection_shares_the_arrays():
    centers, axes, norm = stack(2)
    many = Regions(centers, axes, norm)
    mask = np.arange(37) % 3 == 0
    some = many[mask]
    assert len(some) == mask.sum()
    assert some[1] == many[3] == Region(centers[3], axes[3], 2)
    assert many[4:10][np.array([1, 2])][0] == many[5]
    assert many[-1] == many[36]
    axes[3] *= 2
    assert some[1].axes[0, 0] == axes[3][0, 0]
    b = many[1]
    assert touch_scale(some, b).tolist() == touch_scale(many, b)[mask].tolist()
    assert "37 of norm=2" in repr(many)


def test_no_region_at_all():
    none = Regions(np.zeros((0, 2, 3)), np.zeros((0, 2, 3)), 1)
    b = Region(np.zeros((2, 3)), 1.0, 1)
    assert len(none) == len(disjoint(none, b)) == len(touch_scale(none, b)) == len(distance(none, b.center)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((3, 2)), np.ones((3, 1)), 2), r"axes: expected the shape of centers, \(3, 2\), got \(3, 1\)"),
        ((np.zeros((3, 2)), np.zeros((3, 2)), 2), r"axes: expected numbers above 0, got 0"),
        ((np.zeros((3, 2)), np.full((3, 2), np.nan), 2), r"axes: expected finite numbers.*got nan"),
        ((np.full((3, 2), np.inf), np.ones((3, 2)), 2), r"centers: expected finite numbers.*got inf"),
        ((np.zeros((3, 2)), np.ones((3, 2)), 0), r"norm: expected 1 or 2, got 0"),
        ((1.0, 1.0, 2), r"centers: expected an array of M points, M x shape, got shape \(\)"),
        ((np.zeros((3, 0)), np.zeros((3, 0)), 2), r"centers: expected an array of M points"),
        (([["a"]], [[1.0]], 2), r"centers: expected an array of real numbers"),
    ],
)
def test_bad_stacks(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Regions(*arguments)
    with pytest.raises(ArgumentError, match=r"z: expected shape \(2, 3\)"):
        Regions(*stack(1)).gauges([0.0])
