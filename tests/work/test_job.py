"""The network of a run: its hash or its name, and its behaviour, which no name stands in for."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anisocert.engine import Network, same_behaviour
from anisocert.engine.probe import from_json
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.models import build, load, save
from anisocert.runs import Configuration, read_run
from anisocert.runs.loading import load_model
from anisocert.verify.recounting import recount
from anisocert.work._certifier import Certifier
from anisocert.work.job import load_job, model_files


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> str:
    """A network of the same kind that answers differently."""
    torch.manual_seed(99)
    path = tmp_path_factory.mktemp("other") / "other.safetensors"
    save(build("small-cnn", 10, (0.3,), (0.4,)), path, {
        "architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.4,),
    })  # fmt: skip
    return str(path)


@pytest.fixture
def named(quick) -> Configuration:
    return replace(quick, model_id="our digits, spring", max=6)


PAIR = """
import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        scores = self.layer(x.flatten(1))
        return {kept}
"""


def test_scores_have_as_many_columns_as_the_data_has_classes(quick, tmp_path, monkeypatch):
    """Of all its data, even if one example is asked about; workers load the same by the completed configuration."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "users_pair.py").write_text(PAIR.format(kept="scores[:, :3], scores"))
    (tmp_path / "users_same.py").write_text(PAIR.format(kept="scores + 1, scores"))
    asked = replace(quick, model="users_pair:Pair", max=1)
    job = load_job(asked)
    assert job.metadata["notes"][-1].startswith("its scores are element 1 in the tuple that it returns, the one of 10")
    assert job.configuration.num_classes == 10
    assert load_model(job.configuration)[0].part == 1
    with pytest.raises(ModelError, match=r"ScoresOf\(model, 0\), or 1"):
        load_job(replace(asked, model="users_same:Pair"))
    assert load_job(replace(asked, num_classes=10)).configuration.num_classes == 10


@pytest.mark.parametrize("noise", ["gaussian", "gaussian-mixture", "gaussianmixture"])
def test_a_network_of_several_levels_is_not_warned_of_another_one(quick, other, tmp_path, noise):
    model, said = load(other)
    save(model, tmp_path / "net.safetensors", said | {"noise": noise, "norm": "l2", "sigma": 0.77})
    job = load_job(replace(quick, model=str(tmp_path / "net.safetensors"), max=1))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        job.warn()
    assert any("trained with noise of sigma 0.77" in str(one.message) for one in found) == (noise == "gaussian")


def test_a_mixture_reaches_as_far_as_its_own_theta(quick):
    """Its gap, of 1000 unanimous votes 1.24, is in units of its theta, here 0.29, not of sigma, 0.25."""
    asked = replace(
        quick, method="fixed", n=1000, noise="gaussian-mixture", components="0.3:0.8,0.7:1.6", target_radius=0.33
    )
    load_job(asked).warn()  # warnings are errors in this test suite
    with pytest.warns(AnisocertWarning, match=r"expected target_radius <= 0\.35.*, got 0\.36: no input will reach it"):
        load_job(replace(asked, target_radius=0.36)).warn()


def test_a_run_keeps_its_networks_behaviour(quick, whole):
    said = read_run(whole).description
    network = Network(load(quick.model)[0], 10, "cpu", quick.numerics)
    assert same_behaviour(from_json(said["probe"]), network.probe((1, 8, 8)))
    assert said["input_shape"] == [1, 8, 8]
    assert said["model_id"] is None
    assert said["model_hash"] == network.hash
    assert "probe" not in said["command"]
    assert "model-id" not in said["command"]


def test_a_name_takes_the_place_of_the_hash(named, do, tmp_path):
    assert do(named, tmp_path).finished
    said = read_run(tmp_path).description
    assert (said["model_id"], said["model_hash"]) == ("our digits, spring", "our digits, spring, float32 on grid 2^-12")
    assert "--model-id 'our digits, spring'" in said["command"]
    assert do(named, tmp_path).finished
    run = read_run(tmp_path)
    assert list(recount(run, run.column("idx")[:2].tolist())) == []


def test_a_memory_of_another_network_or_norm_names_the_remedy(quick, other, do, tmp_path):
    asked = replace(quick, max=1, memory=str(tmp_path / "m.sqlite"))
    do(asked, tmp_path / "run")
    for change, what in (({"model": other}, "network"), ({"norm": "l1"}, "norm")):
        with pytest.raises(ArgumentError, match=rf"expected a memory for .*: choose another --memory for this {what}$"):
            do(replace(asked, **change), tmp_path / what)


def test_another_network_of_that_name_resumes_nothing(named, other, do, tmp_path):
    do(named, tmp_path, shard=(1, 3))
    with pytest.raises(
        ArgumentError, match=r"under one name \(our digits, spring, float32 on grid 2\^-12\), it behaves"
    ):
        do(replace(named, model=other), tmp_path)
    assert do(named, tmp_path).finished
    with pytest.raises(ArgumentError, match="behaves differently"):
        do(replace(named, model=other), tmp_path)


def test_another_behaviour_under_one_hash_resumes_nothing(quick, do, tmp_path):
    """As by a library that computes differently in its next version; seals are of the configuration too."""
    do(replace(quick, max=6), tmp_path, shard=(1, 3))
    begun = tmp_path / "unfinished" / "configuration.json"
    said = json.loads(begun.read_text())
    said["probe"] = (-np.array(said["probe"])).tolist()
    begun.write_text(json.dumps(said))
    with (
        pytest.warns(AnisocertWarning, match="2 inputs in .* by another user"),
        pytest.raises(ArgumentError, match="got one that behaves differently"),
    ):
        do(replace(quick, max=6), tmp_path)


def test_recounting_finds_another_network_of_that_name(named, other, do, tmp_path):
    do(named, tmp_path)
    (found,) = recount(read_run(tmp_path).moved(model=other), [0, 1])
    assert "got a different network" in found.what


@pytest.mark.parametrize("shape", [None, [], [1 << 20, 1 << 20], ["a"], [0]])
def test_a_name_without_a_probe_vouches_for_nothing(named, do, tmp_path, shape, forge):
    do(named, tmp_path)
    run = read_run(tmp_path)
    forge(tmp_path, input_shape=shape)
    with pytest.raises(ArgumentError, match="expected input_shape"):
        list(recount(read_run(tmp_path), [0]))
    forge(tmp_path, input_shape=run.description["input_shape"], probe=None)
    (found,) = recount(read_run(tmp_path), [0])
    assert "got a different network" in found.what


FOREST = """
import numpy as np, torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn
from anisocert.data import digits

class Forest(nn.Module):
    def __init__(self):
        super().__init__()
        data = digits("train")
        self.trees = RandomForestClassifier(8, random_state=0).fit(data.x.reshape(len(data), -1), {labels})
    def forward(self, x):
        return torch.from_numpy(self.trees.predict_proba(x.flatten(1).numpy())).float()

def make():
    return Forest()
"""


def test_a_forest_and_its_flipped_twin_share_no_run(quick, do, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, labels in (("users_forest", "data.y"), ("users_twin", "9 - data.y")):
        Path(tmp_path / f"{name}.py").write_text(FOREST.format(labels=labels))
    asked = replace(quick, model="users_forest:make", n=40, n0=10, max=4)
    do(asked, tmp_path / "run", shard=(1, 2))
    with pytest.raises(ArgumentError, match="got a different one: model: users_forest:make"):
        do(replace(asked, model="users_twin:make"), tmp_path / "run")
    assert do(asked, tmp_path / "run").finished


def test_a_network_travels_with_the_files_of_its_data(quick, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "weights"], ["scores"])],
        "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["b", 10])],
        [numpy_helper.from_array(weights, "weights")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    asked = replace(quick, model=str(tmp_path / "net.onnx"), num_classes=10)
    files = model_files(asked)
    assert files is not None
    assert sorted(files) == ["net.data", "net.onnx"]
    here, there = Certifier(asked, None, "cpu"), Certifier(asked, None, "cpu", None, files)
    settled = [one.settle(quick.numerics, (1, 8, 8), 1) for one in (here, there)]
    assert settled[0].model_hash == settled[1].model_hash
    assert np.array_equal(settled[0].probe, settled[1].probe)
    assert model_files(replace(asked, model="users:make")) is None


def test_a_memory_takes_no_other_network_of_that_name(named, other, do, tmp_path):
    memory = str(tmp_path / "memory.sqlite")
    do(replace(named, memory=memory), tmp_path / "first")
    with pytest.raises(ArgumentError, match="answers differently under the same hash, our digits, spring"):
        do(replace(named, memory=memory, model=other), tmp_path / "second")
