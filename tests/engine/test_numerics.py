import pytest
import torch

from anisocert import Numerics
from anisocert.engine.numerics import keep_large_blocks, native_precision
from anisocert.errors import ArgumentError


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"precision": "float16"}, "precision"),
        ({"rows": 0}, "rows"),
        ({"rows": -32}, "rows"),
        ({"rows": 7}, "rows"),
        ({"rows": 32.0}, "rows"),
        ({"compile": "yes"}, "compile"),
    ],
)
def test_bad_choices(options, name):
    with pytest.raises(ArgumentError, match=rf"expected {name}.*got"):
        Numerics(**options)


def test_native_precision_is_one_the_device_knows():
    assert native_precision(torch.device("cpu")) in ("float32", "bfloat16")
    assert native_precision(torch.device("meta")) == "float32"


def test_keeping_large_blocks_is_harmless():
    keep_large_blocks()
    assert torch.ones(10_000_000).sum() == 10_000_000
