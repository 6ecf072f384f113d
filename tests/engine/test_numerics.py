import pytest
import torch

from anisocert import Numerics
from anisocert.engine import Network
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


def test_native_precision_is_one_the_device_knows(monkeypatch):
    monkeypatch.delenv("ANISOCERT_PRECISION", raising=False)
    assert native_precision(torch.device("cpu")) in ("float32", "bfloat16")
    assert native_precision(torch.device("meta")) == "float32"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_environment_names_the_precision_that_nobody_else_does(precision, small_network, monkeypatch):
    monkeypatch.setenv("ANISOCERT_PRECISION", precision)
    assert native_precision(torch.device("cpu")) == precision
    assert Network(small_network, 5).numerics.precision == precision
    assert Network(small_network, 5).hash == Network(small_network, 5, numerics=Numerics(precision)).hash
    other = {"float32": "bfloat16", "bfloat16": "float32"}[precision]
    assert Network(small_network, 5, numerics=Numerics(other)).numerics.precision == other


def test_a_wrong_precision_in_the_environment_is_named_and_an_empty_one_is_none(small_network, monkeypatch):
    monkeypatch.setenv("ANISOCERT_PRECISION", "float16")
    with pytest.raises(ArgumentError, match="expected ANISOCERT_PRECISION 'float32' or 'bfloat16', got 'float16'"):
        Network(small_network, 5)
    monkeypatch.setenv("ANISOCERT_PRECISION", "")
    assert native_precision(torch.device("meta")) == "float32"


def test_keeping_large_blocks_is_harmless():
    keep_large_blocks()
    assert torch.ones(10_000_000).sum() == 10_000_000
