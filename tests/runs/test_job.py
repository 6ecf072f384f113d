"""The network of a run: its hash or its name, and its behaviour, which no name stands in for."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anisocert.engine import Network, same_behaviour
from anisocert.engine.probe import from_json
from anisocert.errors import ArgumentError
from anisocert.models import build, load, save
from anisocert.runs import Configuration, read_run
from anisocert.runs.files import write_description
from anisocert.runs.recounting import recount


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> str:
    """A network of the same kind that answers otherwise."""
    torch.manual_seed(99)
    path = tmp_path_factory.mktemp("other") / "other.safetensors"
    save(build("small-cnn", 10, (0.3,), (0.4,)), path, {
        "architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.4,),
    })  # fmt: skip
    return str(path)


@pytest.fixture
def named(quick) -> Configuration:
    return replace(quick, model_id="our digits, spring", max=6)


def test_a_run_keeps_its_networks_behaviour(quick, whole):
    said = read_run(whole).description
    network = Network(load(quick.model)[0], 10, "cpu", quick.numerics)
    assert same_behaviour(from_json(said["probe"]), network.probe((1, 8, 8)))
    assert said["probe_shape"] == [1, 8, 8]
    assert said["model_id"] is None
    assert said["model_hash"] == network.hash
    assert "probe" not in said["command"]
    assert "model-id" not in said["command"]


def test_a_name_takes_the_place_of_the_hash(named, do, tmp_path):
    assert do(named, tmp_path).finished
    said = read_run(tmp_path).description
    assert said["model_hash"] == said["model_id"] == "our digits, spring"
    assert "--model-id 'our digits, spring'" in said["command"]
    assert do(named, tmp_path).finished
    run = read_run(tmp_path)
    assert list(recount(run, run.column("idx")[:2].tolist())) == []


def test_another_network_of_that_name_resumes_nothing(named, other, do, tmp_path):
    do(named, tmp_path, shard=(1, 3))
    with pytest.raises(ArgumentError, match=r"under one name \(our digits, spring\), it behaves otherwise"):
        do(replace(named, model=other), tmp_path)
    assert do(named, tmp_path).finished
    with pytest.raises(ArgumentError, match="behaves otherwise"):
        do(replace(named, model=other), tmp_path)


def test_another_behaviour_under_one_hash_resumes_nothing(quick, do, tmp_path):
    """As by a library that computes otherwise in its next version."""
    do(replace(quick, max=6), tmp_path, shard=(1, 3))
    begun = tmp_path / "unfinished" / "configuration.json"
    said = json.loads(begun.read_text())
    said["probe"] = (-np.array(said["probe"])).tolist()
    begun.write_text(json.dumps(said))
    with pytest.raises(ArgumentError, match="got one that behaves otherwise"):
        do(replace(quick, max=6), tmp_path)


def test_recounting_finds_another_network_of_that_name(named, other, do, tmp_path):
    do(named, tmp_path)
    (found,) = recount(read_run(tmp_path), [0, 1], model=other)
    assert "got another network" in found.what


@pytest.mark.parametrize("shape", [None, [], [1 << 20, 1 << 20], ["a"], [0]])
def test_a_name_without_a_probe_vouches_for_nothing(named, do, tmp_path, shape):
    do(named, tmp_path)
    run = read_run(tmp_path)
    write_description(tmp_path, run.description | {"probe_shape": shape})
    with pytest.raises(ArgumentError, match="expected probe_shape"):
        list(recount(read_run(tmp_path), [0]))
    write_description(tmp_path, run.description | {"probe": None})
    (found,) = recount(read_run(tmp_path), [0])
    assert "got another network" in found.what


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
    with pytest.raises(ArgumentError, match="got another: model: users_forest:make"):
        do(replace(asked, model="users_twin:make"), tmp_path / "run")
    assert do(asked, tmp_path / "run").finished
