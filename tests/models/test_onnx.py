import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.errors import ArgumentError, MissingExtraError, ModelError
from anisocert.models import build, load
from anisocert.train import Cohen, Sgd, train

onnx = pytest.importorskip("onnx", reason="needs the extra onnx: pip install '.[onnx]'")
pytest.importorskip("onnxruntime", reason="needs the extra onnx: pip install '.[onnx]'")

MEAN, STD = (0.3,), (0.4,)


@pytest.fixture(scope="module")
def network() -> nn.Module:
    from anisocert.data import digits

    torch.manual_seed(0)
    model, data = build("small-cnn", 10, MEAN, STD), digits("train")
    train(model, data, Cohen(), ac.Gaussian(0.25), sgd=Sgd(2, 64, 0.05))
    return model


@pytest.fixture(scope="module")
def exported(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _export(network, tmp_path_factory.mktemp("onnx") / "m.onnx")


def _export(network: nn.Module, path: Path, batch: int | None = None) -> Path:
    """By the exporter that needs no further package."""
    network = network.to(memory_format=torch.contiguous_format)
    free = {"dynamic_axes": {"x": {0: "b"}, "scores": {0: "b"}}} if batch is None else {}
    x = torch.rand(batch or 2, 1, 8, 8)
    torch.onnx.export(network, (x,), path, dynamo=False, input_names=["x"], output_names=["scores"], **free)
    return path


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_round_trip_certifies_with_the_same_votes(network: nn.Module, exported: Path) -> None:
    from anisocert.data import digits

    box, metadata = load(exported, num_classes=10)
    assert metadata["num_classes"] == 10
    tests = digits("test").subset(most=8)
    plan, float32 = ac.Plan(n0=50, n=1000), ac.Numerics("float32")  # what the file's own runtime computes in
    runs = [
        ac.certify(
            model, tests.x, ids=tests.ids.tolist(), smoothing=ac.Gaussian(0.25), plan=plan, num_classes=10,
            numerics=float32,
        )
        for model in (network, box)
    ]  # fmt: skip
    for torch_one, onnx_one in zip(*runs, strict=True):
        assert (torch_one.prediction, torch_one.top_votes, torch_one.runner_up_votes, torch_one.gap) == (
            onnx_one.prediction, onnx_one.top_votes, onnx_one.runner_up_votes, onnx_one.gap,
        )  # fmt: skip
    assert runs[0][0].model_hash != runs[1][0].model_hash
    assert any(one.gap > 0 for one in runs[1])


def test_hash_tells_files_apart(network: nn.Module, exported: Path, tmp_path: Path) -> None:
    with torch.no_grad():
        network.network.head.bias[0] += 1e-3
    other = _export(network, tmp_path / "other.onnx")
    with torch.no_grad():
        network.network.head.bias[0] -= 1e-3
    hashes = {ac.Network(load(path)[0], 10).hash for path in (exported, other, exported)}
    assert len(hashes) == 2
    assert bytes(load(exported)[0].digest.tolist()) == hashlib.sha256(exported.read_bytes()).digest()


def test_fixed_batch_size(network: nn.Module, tmp_path: Path) -> None:
    box, _ = load(_export(network, tmp_path / "fixed.onnx", batch=4))
    x = torch.rand(6, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(box(x), network(x), rtol=1e-4, atol=1e-5)


def test_normalisation_outside_the_file(network: nn.Module, tmp_path: Path) -> None:
    box, _ = load(_export(network.network, tmp_path / "bare.onnx"), mean=MEAN, std=STD)
    x = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(box(x), network(x), rtol=1e-4, atol=1e-5)


def test_gradients_through_conversion(network: nn.Module, exported: Path) -> None:
    if find_spec("onnx2torch") is None:
        pytest.skip("needs the extra onnx: pip install '.[onnx]'")
    converted, metadata = load(exported, gradients=True)
    assert metadata["num_classes"] == 10
    gradients = []
    for model in (network, converted):
        x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        model(x)[:, 3].sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)


def test_broken_files(exported: Path, tmp_path: Path) -> None:
    for content in (b"", b"nonsense", exported.read_bytes()[:-500]):
        (tmp_path / "broken.onnx").write_bytes(content)
        with pytest.raises(ModelError, match="expected a whole ONNX file"):
            load(tmp_path / "broken.onnx")


def test_wrong_class_count_and_wrong_output(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"expected a network with 100 classes in .*, got 10"):
        load(exported, num_classes=100)
    with pytest.raises(ModelError, match=r"expected one input and scores of shape \(b, classes\)"):
        load(_export(nn.Identity(), tmp_path / "identity.onnx"))


def test_missing_extra(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"anisocert\[onnx\]"):
        load(exported)


def test_missing_converter(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx2torch", None)
    with pytest.raises(MissingExtraError, match=r"anisocert\[onnx\]"):
        load(exported, gradients=True)


def test_scores_are_float32_numbers(exported: Path) -> None:
    scores = load(exported)[0](torch.rand(2, 1, 8, 8))
    assert scores.dtype == torch.float32
    assert np.isfinite(scores.numpy()).all()
