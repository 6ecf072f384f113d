"""A network in 8 bits: near the network that it was made from, and a network of its own in every other respect."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.data import digits
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Normalized, build, load, quantize
from anisocert.train import Cohen, Sgd, train

onnx = pytest.importorskip("onnx", reason="needs the extra onnx: pip install '.[onnx]'")
pytest.importorskip("onnxruntime", reason="needs the extra onnx: pip install '.[onnx]'")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SIGMA = 0.25


def noisy(split: Any, most: int) -> torch.Tensor:
    x = torch.from_numpy(digits(split).subset(most=most).x)
    return x + SIGMA * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(0)
    model = build("small-cnn", 10, (0.3,), (0.4,))
    train(model, digits("train"), Cohen(), ac.Gaussian(SIGMA), sgd=Sgd(4, 64, 0.05))
    return model.eval()


@pytest.fixture(scope="module")
def path(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("int8") / "int8.onnx"
    quantize(network, noisy("train", 256), made)
    return made


def test_it_votes_nearly_as_the_network_does(network: nn.Module, path: Path) -> None:
    box, known = load(path, shape=(1, 8, 8))
    x = noisy("test", 360)
    with torch.no_grad():
        moved = float((box(x).argmax(1) != network(x).argmax(1)).float().mean())
        difference = float((box(x) - network(x)).abs().mean())
    assert difference > 0  # it is another function
    assert moved < 0.02
    assert known["num_classes"] == 10


def test_its_products_are_of_integers_that_no_processor_saturates(path: Path) -> None:
    """Two products of a byte and a weight are summed in 16 bits where there is no VNNI."""
    from onnx import numpy_helper

    integers = [numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer]
    weights = [one for one in integers if one.dtype == np.int8 and one.ndim > 1]
    assert len(weights) == 4
    assert max(int(np.abs(one.astype(int)).max()) for one in weights) * 2 * 255 < 1 << 15


def test_its_scores_are_not_rounded(path: Path) -> None:
    """In 8 bits the two largest of some rows would be equal, and the class of the smaller number would win."""
    scores = load(path)[0](noisy("test", 360))
    assert len(torch.unique(scores)) > 2000
    assert onnx.load(path).graph.output[0].name == "scores"


def test_it_is_certified_as_a_network_of_its_own(network: nn.Module, path: Path) -> None:
    tests = digits("test").subset(most=4)
    box = load(path)[0]
    common: dict[str, Any] = {"num_classes": 10, "smoothing": ac.Gaussian(SIGMA), "plan": ac.Plan(n0=50, n=500)}
    for method in (ac.Fixed(), ac.Isotropic()):
        certificates = ac.certify(box, tests.x, method=method, **common)
        assert any(one.gap > 0 for one in certificates)
        assert {one.model_hash for one in certificates} == {ac.Network(box, 10).hash}
    assert ac.Network(box, 10).hash != ac.Network(network, 10).hash
    with pytest.raises(ModelError, match=r"got a black box: use Isotropic\(\)"):
        ac.certify(box, tests.x, method=ac.Anisotropic(), **common)


def test_the_same_inputs_give_the_same_file(network: nn.Module, path: Path, tmp_path: Path) -> None:
    again = quantize(network, noisy("train", 256).numpy(), str(tmp_path / "again.onnx"))
    other = quantize(network, noisy("train", 64), tmp_path / "other.onnx")
    assert again.digest == load(path)[0].digest != other.digest


def test_convolutions_of_small_maps_are_products(tmp_path: Path) -> None:
    """As the engine rewrites them: else onnxruntime reads all their weights once per input."""
    torch.manual_seed(0)
    conv = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.Flatten(),
        nn.Linear(32, 5),
    )
    quantize(conv.eval(), torch.rand(40, 3, 4, 4), tmp_path / "net.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node]
    assert (kinds.count("Conv"), kinds.count("Gemm") + kinds.count("MatMul")) == (1, 2)


def test_what_cannot_be_quantized(network: nn.Module, tmp_path: Path) -> None:
    out, told = tmp_path / "net.onnx", copy.deepcopy(network)
    told.told_theta = True  # type: ignore[assignment]
    with pytest.raises(ArgumentError, match="expected a network of inputs alone to quantize"):
        quantize(told, noisy("train", 8), out)
    for x in (digits("train").x[:8].astype(np.float64), np.full((8, 1, 8, 8), np.nan, np.float32), torch.rand(0, 3)):
        with pytest.raises(ArgumentError, match="expected x as finite inputs in float32"):
            quantize(network, x, out)

    class Unexportable(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x.flatten(2)).expand(-1, -1)[:, :1].repeat(1, 10)

    with pytest.raises(ModelError, match="expected a network that can be exported and quantized, got"):
        quantize(Normalized(Unexportable(), (0.3,), (0.4,)).eval(), noisy("train", 8), out)
    assert not out.exists()


def test_ranges_that_follow_the_batch_are_refused(network: nn.Module, tmp_path: Path) -> None:
    """Dynamic quantization, which others offer: an input's scores then depend on its company."""
    from onnxruntime.quantization import quantize_dynamic

    plain = network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    torch.onnx.export(
        plain, (torch.rand(2, 1, 8, 8),), tmp_path / "float.onnx", dynamo=False, input_names=["x"],
        output_names=["scores"], dynamic_axes={"x": {0: "b"}, "scores": {0: "b"}},
    )  # fmt: skip
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "dynamic.onnx")
    with pytest.raises(ModelError, match=r"depend on that input alone, .* dynamic quantization"):
        ac.certify(
            load(tmp_path / "dynamic.onnx")[0], digits("test").x[:1], num_classes=10, smoothing=ac.Gaussian(SIGMA)
        )
