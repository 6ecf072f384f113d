"""Regions that reach as far as the search lets them."""

import numpy as np
import pytest

from anisocert.evaluate.room import at_reach
from anisocert.geometry import Region


@pytest.mark.parametrize("norm", [1, 2])
def test_the_reach_is_half_the_way_to_the_blank_image(norm):
    x = np.random.default_rng(0).random((1, 4, 4))
    half = np.linalg.norm((x - x.mean()).ravel(), norm) / 2
    assert at_reach(Region(x, half, norm))
    assert at_reach(Region(x, 0.91 * half, norm))
    assert not at_reach(Region(x, 0.89 * half, norm))


def test_inputs_that_are_no_images_have_none():
    assert not at_reach(Region(np.linspace(0, 1, 8), 1e6, 2))
