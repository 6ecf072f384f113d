"""From a network to one in 8 bits, and on to a run that is verified."""

import pytest

from anisocert.data import digits
from anisocert.runs import read_run
from anisocert.runs.files import read_description

pytest.importorskip("onnxruntime", reason="needs the extra onnx: pip install '.[onnx]'")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def net(cli, tmp_path):
    cli("train", "--data", "digits", "--sigma", 0.25, "--epochs", 2, "--out", tmp_path / "net")
    return tmp_path / "net" / "last.safetensors"


def test_what_it_writes_is_what_is_certified(cli, net, tmp_path):
    out, run = tmp_path / "int8.onnx", tmp_path / "run"
    said = cli("quantize", net, "--data", "digits", "--max", 64, "--out", out).out
    assert f"sigma 0.25, which {net} was trained with" in said
    assert f"{out}: {net} in 8-bit integers, by 64 noisy examples" in said
    assert "of the votes of 1024 other noisy examples" in said
    first, content = said.splitlines()[-1].split(), out.read_bytes()
    assert first[:3] == ["anisocert", "certify", str(out)]
    cli(*first[1:-1], run, "--n", 200, "--max", 3)  # the command that it says comes next
    assert "votes of 3 drawn again" in cli("verify", run, "--recount", 3).out
    cli("predict", out, "--data", "digits", "--sigma", 0.25, "--n", 100, "--max", 2)
    told = cli("certify", out, "--data", "digits", "--sigma", 0.25, "--max", 2, "--out", tmp_path / "other", code=1).err
    assert "Without gradients it works as a black box: --method isotropic, or fixed" in told
    cli("quantize", net, "--data", "digits", "--max", 64, "--out", out)  # its own file it may replace
    assert out.read_bytes() == content
    cli("quantize", net, "--data", "digits", "--max", 32, "--out", out)
    assert "network" in cli("verify", run, "--recount", 1, code=1).out
    assert read_description(run)["model_hash"] == read_run(run).configuration.model_hash


def test_an_onnx_network_and_few_examples(cli, net, tmp_path):
    import numpy as np
    import torch

    from anisocert.models import load

    few = digits("train").subset(most=40)
    np.savez(tmp_path / "few.npz", x=few.x)  # no labels, and no more examples than set the ranges
    model = load(net)[0].to(memory_format=torch.contiguous_format)
    torch.onnx.export(
        model, (torch.rand(2, 1, 8, 8),), tmp_path / "net.onnx", dynamo=False, input_names=["x"],
        output_names=["scores"], dynamic_axes={"x": {0: "b"}, "scores": {0: "b"}},
    )  # fmt: skip
    given = ("quantize", tmp_path / "net.onnx", "--data", tmp_path / "few.npz", "--sigma", 0.25, "--out")
    said = cli(*given, tmp_path / "int8.onnx").out
    assert "by 40 noisy examples" in said
    assert "moved" not in said
    assert "got another" in cli(*given, tmp_path / "net.onnx", code=2).err
    assert "expected --out as an .onnx file" in cli(*given, tmp_path / "int8.pt", code=2).err
