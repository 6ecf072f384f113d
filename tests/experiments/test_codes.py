import numpy as np

from anisocert.geometry import Region
from codes import box_radius, budgets, lines


def test_a_box_fits_up_to_its_corners():
    rng = np.random.default_rng(0)
    for _ in range(50):
        axes, a = rng.uniform(0.1, 3, 4), rng.uniform(0.1, 3, 4)
        r, region = box_radius(axes, a), Region(np.zeros(4), axes, 2)
        corners = r * a * rng.choice([-1, 1], (20, 4))
        assert (region.gauges(corners) <= 1).all()
        assert not region.contains(corners[0] * 1.0001)


def test_budgets_are_one_in_the_middle():
    a = budgets((2, 8, 8), 4.0)
    assert a.shape == (2, 8, 8)
    assert a[0, 2:6, 2:6].tolist() == np.ones((4, 4)).tolist()
    assert (a == 1).sum() == 32
    assert set(a.ravel()) == {1.0, 4.0}


def test_wrong_answers_are_not_certified_at_zero():
    assert lines({"one": np.array([-1.0, 0.0, 0.5, 1.0])}, (0.0, 0.5))[1].split() == ["one", "75.0", "50.0"]
