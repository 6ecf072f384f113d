import tracemalloc

import numpy as np
import pytest

from anisocert.runs.thetas import MOST_VALUES, packed, unpacked

SHAPE = (3, 224, 224)


@pytest.mark.parametrize(
    ("theta", "stored"),
    [
        (np.full(SHAPE, 0.3, np.float32), (1, 1, 1)),
        (np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 2, 2), (3, 2, 2)),
        (np.full(4, 0.3, np.float32), (4,)),  # (1,) is a scalar
        (np.float32(0.3), (1,)),
    ],
)
def test_what_is_stored_comes_back(theta, stored):
    found = packed(theta)
    assert found.shape == stored
    again = unpacked(found, list(np.shape(theta)))
    assert again.shape == np.shape(theta)
    assert np.array_equal(again, theta)
    assert again.dtype == np.float32


def test_one_pixel_that_differs_is_kept():
    theta = np.full(SHAPE, 0.3, np.float32)
    theta[2, 100, 7] = np.nextafter(np.float32(0.3), np.float32(1))
    assert np.array_equal(unpacked(packed(theta), list(SHAPE)), theta)


@pytest.mark.parametrize(
    "said",
    [None, 3, "abc", [], [3, 2], [3, -1, 2], [3, 2.0, 2], [3, True, 2], [0, 1, 1], [MOST_VALUES, 2, 1], [10**400] * 3],
)
def test_a_shape_that_is_none_leaves_the_number(said):
    tracemalloc.start()
    found = unpacked(np.full((1, 1, 1), 0.3, np.float32), said)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
    assert found.shape == ()
    assert found == np.float32(0.3)


def test_what_comes_back_takes_no_memory():
    tracemalloc.start()
    unpacked(np.full((1, 1, 1), 0.3, np.float32), list(SHAPE))
    assert tracemalloc.get_traced_memory()[1] < 10_000
    tracemalloc.stop()
