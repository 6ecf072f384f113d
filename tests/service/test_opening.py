"""What a user may type for the noise of a service: also one that a selector chooses from a codebook."""

import numpy as np
import pytest
import torch

from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.models import Codebook, build, save
from anisocert.runs import Configuration

pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")

from anisocert.service.opening import open_memory, open_system


def test_a_selector_chooses_the_noise(tmp_path):
    """Its certificates hold for everyone, and the memory keeps and proves them like any other."""
    data = digits("test")
    torch.manual_seed(0)
    for name, count in (("network", 10), ("selector", 3)):
        said = {"architecture": "small-cnn", "num_classes": count, "mean": data.mean, "std": data.std}
        save(build("small-cnn", count, data.mean, data.std).eval(), tmp_path / f"{name}.safetensors", said)
    Codebook([0.125, 0.25, 0.5], 0.375).save(tmp_path / "codes.safetensors")
    network, selector, codebook = (str(tmp_path / f"{one}.safetensors") for one in ("network", "selector", "codes"))
    configuration = Configuration(
        model=network, data="", sigma=0.375, method="selected", codebook=codebook, selector=selector, n0=20, n=100,
        memory=str(tmp_path / "memory.sqlite"), numerics=Numerics("float32", False),
    )  # fmt: skip
    with open_memory(configuration) as memory:
        system = open_system(configuration, memory, b"known to no client", "cpu", 1)
        first, again = system.answers(data.x[:1]), system.answers(data.x[:1])
        assert {one.method for one in first} == {"selected"}
        assert {one.note for one in first} == {"kept"}
        assert first[0].prediction >= 0
        assert again[0].note == "inherited"
        np.testing.assert_array_equal([one.prediction for one in first], [one.prediction for one in again])
        assert memory.check().ok
