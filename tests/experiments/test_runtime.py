"""benchmarks/runtime.py measures what a user has: a network, and data by its name or as a file of arrays."""

import sys

import numpy as np
import pytest

from anisocert.data import digits


@pytest.fixture
def measured(script, monkeypatch, trained_digits):
    """measured(*options) -> the images that are measured; what takes long is left out."""
    runtime = script("runtime")
    seconds, seen = {"fixed": (0.0, 1.0)}, []
    monkeypatch.setattr(runtime, "alone", lambda side: seconds if side == "published" else 1.0)
    monkeypatch.setattr(runtime, "ours", lambda model, images, *_: seen.append(images) or seconds)

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["runtime", "--sigma", "0.25", "--weights", str(trained_digits), *options])
        runtime.main()
        return seen[-1]

    return run


def test_data_by_its_name_or_as_a_file(measured, tmp_path):
    x = digits("test").subset(most=3).x
    np.testing.assert_array_equal(measured("--data", "digits", "--images", "3"), x)
    whole = np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8), np.uint8)
    np.savez(tmp_path / "some.npz", x=whole)
    found = measured("--inputs", str(tmp_path / "some.npz"), "--images", "4")
    np.testing.assert_array_equal(found, whole[:4].astype(np.float32) / 255)
