"""scikit-learn's bundled 8x8 digits: the data set that needs no download."""

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anisocert.data.dataset import Dataset
from anisocert.errors import from_extra

TEST_EVERY = 5


def digits(split: Literal["train", "test"]) -> Dataset:
    """1,797 handwritten digits, 8x8 pixels in [0, 1]; every fifth is a test example. Ids are scikit-learn's order."""
    x, y = _read()
    ids = np.arange(len(x))
    keep = (ids % TEST_EVERY == 0) == (split == "test")
    images = (x[keep] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    names = tuple("0123456789")
    return Dataset("digits", images, y[keep].astype(np.int64), ids[keep], 10, (0.3053,), (0.3760,), names)


@cache
def _read() -> tuple[NDArray[Any], NDArray[Any]]:
    """All of them, kept, as reading them from text takes a while; what `digits` gives are copies."""
    with from_extra("cli", "the digits data set needs scikit-learn"):
        from sklearn.datasets import load_digits
    x, y = load_digits(return_X_y=True)
    return x, y
