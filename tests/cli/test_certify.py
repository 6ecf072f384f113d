"""`anisocert certify` as scripts call it."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from anisocert.data import digits
from anisocert.errors import AnisocertWarning
from anisocert.evaluate import ADMITTED, EVERYONE, OR_ABSTAINS, OWN
from anisocert.evaluate.protection import MEANING
from anisocert.models import load, save
from anisocert.runs import read_run
from anisocert.runs.rows import SCHEMA
from anisocert.verify.verifying import verify

MEMORY = ["memory_prediction", "memory_radius", "memory_proxy_radius", "memory_note"]


@pytest.fixture(scope="module")
def network(network_file, tmp_path_factory):
    """The small network in a file that says what it was trained with."""
    model, described = load(network_file)
    path = tmp_path_factory.mktemp("network") / "tiny.safetensors"
    save(model, path, described | {"sigma": 0.25, "norm": "l2"})
    return path


@pytest.fixture
def certify(cli, network):
    """Runs it on a few digits with few votes; options given later win."""

    def run(*arguments, code=0):
        quick = ("--data", "digits", "--sigma", 0.25, "--method", "fixed", "--n", 200, "--max", 6, "--rows", 160)
        return cli("certify", network, *quick, "--no-compile", *arguments, code=code)

    return run


@pytest.mark.precision
def test_as_scripts_call_it(cli, network, tmp_path):
    flags = (
        "--data", "digits", "--norm", "l2", "--method", "isotropic", "--sigma", "0.25", "--n0", "20", "--n", "300",
        "--alpha", "0.01", "--bound", "two-class", "--skip", "20", "--max", "3", "--seed", "1", "--shard", "1/1",
        "--memory", tmp_path / "memory.sqlite", "--memory-policy", "inherit", "--device", "auto", "--out",
    )  # fmt: skip
    said = cli("certify", network, *flags, tmp_path / "run")
    first, *_, last = said.out.splitlines()
    assert first.startswith("certify 3 inputs of digits (isotropic, l2, sigma 0.25, n 300, alpha 0.01) -> ")
    assert last == f"finished: 3 inputs in {tmp_path / 'run'}"
    for word in ("accuracy", "abstain", "ACR", "ACR~", "median", "before the memory", "after the memory"):
        assert word in said.out
    assert "\x1b" not in said.out
    assert said.err == ""
    table = pq.read_table(tmp_path / "run" / "certificates.parquet")
    assert table.column_names == SCHEMA.names + MEMORY
    assert table["idx"].to_pylist() == [0, 100, 200]
    assert verify(tmp_path / "run").ok
    again = cli("certify", network, *flags, tmp_path / "run")
    assert "finished: 3 inputs" in again.out


@pytest.mark.parametrize(
    ("options", "whom"),
    [
        (("--method", "fixed"), [EVERYONE]),
        (("--method", "isotropic"), [OWN]),
        (("--method", "isotropic", "--memory-policy", "inherit"), [OWN, ADMITTED]),
        (("--method", "isotropic", "--memory-policy", "abstain"), [OWN, OR_ABSTAINS]),
        (("--method", "isotropic", "--memory-policy", "worst-case"), [OWN, OR_ABSTAINS]),
    ],
)
def test_the_last_table_says_whom_its_certificates_protect(certify, tmp_path, options, whom):
    memory = ("--memory", tmp_path / "m.sqlite") if "--memory-policy" in options else ()
    said = certify(*options, *memory, "--max", 2, "--json", "--out", tmp_path / "run")
    assert [line["protects"] for line in json.loads(said.out)["summary"].values()] == whom
    told = " ".join(said.err.split())
    assert all(f"“{phrase}”: {MEANING[phrase]}." in told for phrase in whom)
    assert not any(f"{MEANING[phrase]}." in told for phrase in MEANING if phrase not in whom)


@pytest.mark.precision
def test_json_and_quiet(certify, tmp_path):
    said = certify("--json", "--out", tmp_path)
    result = json.loads(said.out)
    assert (result["state"], result["done"], result["of"], result["run"]) == ("finished", 6, 6, str(tmp_path))
    run = read_run(tmp_path)
    assert result["summary"]["certified"]["accuracy"] == run.column("correct").mean()
    assert result["summary"]["certified"]["ACR"] == (run.column("radius") * run.column("correct")).mean()
    assert "finished" in said.err
    assert certify("--json", "--quiet", "--out", tmp_path).err == ""
    assert certify("--quiet", "--out", tmp_path) == type(said)("", "")


@pytest.mark.precision
def test_shards(certify, cli, tmp_path):
    assert "this shard is done, and 3 of 6 inputs" in certify("--shard", "2/2", "--out", tmp_path).out
    assert not (tmp_path / "run.json").exists()
    for reader in ("attack", "verify"):
        assert "one under way: its certify command resumes it" in cli(reader, tmp_path, code=2).err
    assert "finished: 6 inputs" in certify("--shard", "1/2", "--out", tmp_path).out


@pytest.mark.precision
def test_a_time_budget(certify, tmp_path):
    said = certify("--time-budget", "0s", "--out", tmp_path, code=3)
    assert "out of time: 0 of 6 inputs are done; the same command resumes" in said.out
    result = json.loads(certify("--time-budget", "0", "--json", "--out", tmp_path, code=3).out)
    assert (result["state"], result["done"], result["summary"]) == ("out of time", 0, None)
    assert "finished" in certify("--time-budget", "1h", "--out", tmp_path).out


def test_ctrl_c_leaves_a_run_that_goes_on(network, tmp_path):
    command = [sys.executable, "-m", "anisocert", "certify", str(network), "--data", "digits", "--sigma", "0.25"]
    command += ["--method", "fixed", "--n", "10000", "--rows", "160", "--no-compile", "--out", str(tmp_path)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    while not list(tmp_path.glob("unfinished/part-*.parquet")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 3, err
    assert "interrupted: " in out
    assert "of 360 inputs are done; the same command resumes" in out
    assert all(line.startswith("warning: Without any noise") for line in err.splitlines())  # it was never trained


def test_a_dry_run_says_what_and_how_long_and_does_nothing(certify, tmp_path):
    said = certify("--dry-run", "--method", "anisotropic", "--n", 100_000, "--out", tmp_path / "run").out
    assert "would do: certify 6 inputs of digits (anisotropic" in said
    assert "100 votes to select + 100,000 votes to certify" in said
    assert "with gradients" in said
    assert "votes/s, measured here" in said
    assert ", plus start-up and writing" in said
    assert not (tmp_path / "run").exists()
    certify("--shard", "1/3", "--out", tmp_path / "begun")
    files = sorted((tmp_path / "begun").rglob("*"))
    result = json.loads(certify("--dry-run", "--json", "--out", tmp_path / "begun").out)
    assert (result["inputs"], result["total"]) == (4, 4 * 300)
    assert result["seconds"] > 0
    assert sorted((tmp_path / "begun").rglob("*")) == files


def test_a_changed_configuration_is_one_line(certify, tmp_path):
    certify("--shard", "1/2", "--out", tmp_path)
    said = certify("--n", 201, "--seed", 4, "--out", tmp_path, code=2).err
    assert said.startswith(f"error: expected the configuration that {tmp_path} began with, got a different one: ")
    assert "n: 200 -> 201; seed: 0 -> 4" in said
    assert len(said.splitlines()) == 1


@pytest.mark.precision
def test_more_of_its_options(certify, tmp_path):
    said = certify("--ids", "5,10-10,20,25", "--max", 3, "--stop", "betting", "--out", tmp_path / "a")
    assert "finished: 3" in said.out
    table = pq.read_table(tmp_path / "a" / "certificates.parquet")
    assert table["idx"].to_pylist() == [5, 10, 20]
    assert set(table["stop"].to_pylist()) == {"betting"}
    certify("--method", "average", "--average-of", tmp_path / "a", "--norm", "l2", "--out", tmp_path / "b")
    assert set(pq.read_table(tmp_path / "b" / "certificates.parquet")["theta_min"].to_pylist()) == {0.25}


@pytest.mark.precision
def test_a_model_from_a_function_and_in_onnx(cli, network, tmp_path, monkeypatch):
    (tmp_path / "mynets.py").write_text(
        f"from anisocert.models import load\ndef tiny():\n    return load({str(network)!r})[0]\n"
    )
    monkeypatch.chdir(tmp_path)
    few = (
        "--data", "digits", "--sigma", 0.25, "--method", "fixed", "--n", 200, "--max", 3, "--rows", 160, "--no-compile",
    )  # fmt: skip
    cli("certify", "mynets:tiny", *few, "--num-classes", 10, "--out", "function")
    cli("certify", network, *few, "--out", "file")
    a, b = (
        pq.read_table(tmp_path / name / "certificates.parquet").drop_columns("seconds") for name in ("function", "file")
    )
    assert a.equals(b)
    for package in ("onnxruntime", "onnx"):
        pytest.importorskip(package, reason="needs the extra onnx: pip install '.[onnx]'")

    torch.onnx.export(
        load(network)[0], (torch.rand(2, 1, 8, 8),), tmp_path / "net.onnx", dynamo=False,
        dynamic_axes={"x": {0: "b"}, "y": {0: "b"}}, input_names=["x"], output_names=["y"],
    )  # fmt: skip
    assert "finished: 3" in cli("certify", "net.onnx", *few, "--out", "onnx").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shard", "3/2"], "expected shard 1/2 to 2/2, got 3/2"),
        (["--shard", "two"], "expected --shard as in 2/8, got 'two'"),
        (["--time-budget", "soon"], "expected --time-budget as in 90, 10m or 2h, got 'soon'"),
        (["--data", "nothing"], "expected a data set among"),
        (["--device", "cpu,cuda"], "expected devices of one kind"),
        (["--average-of", "x"], "average_of"),
        (["--memory-policy", "inherit"], "expected memory, a file"),
        (
            ["--memory", "m", "--memory-policy", "share"],
            "expected memory_policy to be one of inherit, abstain, worst-case, got",
        ),
        (["--memory", "m", "--memory-prefer", "size"], "expected memory_prefer to be one of volume, ball, got 'size'"),
        (["--mean", "a"], "expected --mean as numbers"),
        (["--seed", "-1"], "expected seed"),
        (["--precision", "float8"], "precision"),
        (["--rows", "33"], "multiple of 32"),
        (["--outputs", "votes"], "logits"),
    ],
)
def test_wrong_values_are_one_line_and_leave_nothing(certify, tmp_path, arguments, words):
    said = certify(*arguments, "--out", tmp_path / "run", code=2)
    assert words in said.err
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) == 1
    assert said.out == ""
    assert not (tmp_path / "run").exists()


@pytest.mark.precision
def test_sigma_is_what_the_network_was_trained_with(cli, network, tmp_path):
    few = ("--data", "digits", "--method", "fixed", "--n", 200, "--max", 2, "--rows", 160, "--no-compile")
    said = cli("certify", network, *few, "--out", tmp_path / "run").out.splitlines()
    assert said[0] == f"sigma 0.25, which {network} was trained with"
    assert read_run(tmp_path / "run").configuration.sigma == 0.25
    assert "--sigma 0.25" in read_run(tmp_path / "run").description["command"]
    answered = cli("predict", network, *few[:2], "--n", 40, "--max", 2, "--format", "json")
    assert json.loads(answered.out)["sigma"] == 0.25
    assert "sigma 0.25, which" in answered.err


def test_where_nothing_tells_sigma_the_option_is_named(cli, network, tmp_path, monkeypatch):
    (tmp_path / "users_tiny.py").write_text(
        f"from anisocert.models import load\ndef net(): return load({str(network)!r})[0]"
    )
    monkeypatch.chdir(tmp_path)
    for asked, why in (
        (("users_tiny:net",), "the l2 noise of users_tiny:net"),
        ((network, "--norm", "l1"), "which was trained for norm l2"),
        ((network, "--denoise", "users_tiny:net"), "the l2 noise of"),
    ):
        for command in (("certify", "--out", "run"), ("predict",)):
            said = cli(*command, *asked, "--data", "digits", code=2).err
            assert "use --sigma" in said
            assert why in said
    assert not (tmp_path / "run").exists()


def test_places_that_are_none(certify, cli, tmp_path):
    assert "nothing there" in cli("certify", "no.pt", "--data", "digits", "--sigma", 1, "--out", tmp_path, code=2).err
    (tmp_path / "file").touch()
    assert f"'--out': dir '{tmp_path / 'file'}' is a file" in certify("--out", tmp_path / "file", code=2).err
    for place in (tmp_path / "file" / "below", "/proc/run"):
        said = certify("--out", place, code=1).err
        assert said.startswith(f"error: {place}"), said
        assert len(said.splitlines()) == 1


def test_it_warns_of_noise_the_network_does_not_know(certify, tmp_path):
    with pytest.warns(AnisocertWarning, match=r"trained with noise of sigma 0\.25, got 0\.5"):
        certify("--sigma", 0.5, "--out", tmp_path / "a")
    with pytest.warns(AnisocertWarning, match="trained with noise for norm l2, got norm l1"):
        certify("--norm", "l1", "--out", tmp_path / "b")
    with pytest.warns(AnisocertWarning, match="every input will abstain"):
        certify("--n", 5, "--out", tmp_path / "c")
    with pytest.warns(AnisocertWarning, match=r"<= 0\.4\d*, what 200 .* got 2.*: no input will reach it"):
        certify("--target-radius", 2, "--out", tmp_path / "d")


@pytest.mark.parametrize("method", ["isotropic", "anisotropic"])
def test_says_where_theta_reached_its_bound(cli, trained_digits, tmp_path, method):
    """Where the largest value of theta is the bound: one between those that searches without it end at."""
    quick = (trained_digits, "--data", "digits", "--sigma", 0.1, "--method", method, "--n", 200, "--max", 8)
    quick = (*quick, "--rows", 320, "--no-compile", "--precision", "float32")
    high = cli("certify", *quick, "--limit", 8, "--out", tmp_path / "high").out
    assert "its bound" not in high
    ends = [theta.max() / 0.1 for theta in read_run(tmp_path / "high").thetas.values()]
    limit = round(math.sqrt(min(ends) * max(ends)), 2)
    low = cli("certify", *quick, "--limit", limit, "--out", tmp_path / "low").out
    thetas = read_run(tmp_path / "low").thetas
    there = {number: bool(np.isclose(theta.max(), 0.1 * limit, rtol=1e-5)) for number, theta in thetas.items()}
    assert 0 < sum(there.values()) < 8
    assert f"theta reached its bound on {sum(there.values())} of 8 inputs (--limit {limit:g})" in low
    for number, reached in there.items():
        said = cli("show", tmp_path / "low", number, "--out", tmp_path / "page.html").out
        sentence = f"The search for its noise θ ended at its bound, {limit:g} x 0.1 (--limit)"
        assert (sentence in said) == (sentence in (tmp_path / "page.html").read_text("utf-8")) == reached


def test_sizes_inside_the_domain_are_told_too(cli, trained_digits, tmp_path):
    quick = ("--data", "digits", "--sigma", 0.25, "--n", 1000, "--max", 4, "--rows", 800, "--no-compile")
    run = (trained_digits, *quick, "--precision", "float32", "--domain", "0,1")
    said = cli("certify", *run, "--json", "--out", tmp_path / "run")
    summary = json.loads(said.out)["summary"]["certified"]
    stored, x = read_run(tmp_path / "run"), read_run(tmp_path / "run").examples().x
    regions = [stored.certificate(row["idx"], x[place]).region for place, row in enumerate(stored.rows)]
    inside = [one.proxy_radius_inside(0, 1) * row["correct"] for one, row in zip(regions, stored.rows, strict=True)]
    assert summary["ACR~ inside"] == pytest.approx(np.mean(inside))
    assert 0 < summary["median~ inside"] <= summary["median~"]
    assert "in the domain, 0 to 1: ACR~ 0." in said.err
    assert f"of the parts of regions that are valid inputs; {OWN}" in said.err
    assert "--domain 0.0,1.0" in stored.configuration.command(tmp_path)
    shown = cli("show", tmp_path / "run", stored.rows[0]["idx"]).out
    assert "The part of it in the domain, 0 to 1, has a proxy radius of 0." in " ".join(shown.split())
    np.savez(tmp_path / "unlabelled.npz", x=x)
    bare = cli("certify", *run, "--data", tmp_path / "unlabelled.npz", "--json", "--out", tmp_path / "bare").out
    assert json.loads(bare)["summary"]["certified"]["ACR~ inside"] >= summary["ACR~ inside"]  # of whatever was answered
    wrong = cli("certify", *run[:-1], "0.5,2", "--out", tmp_path / "wrong", code=2).err
    assert "expected inputs in their domain, 0.5 to 2, got values from 0 to" in " ".join(wrong.split())
    for text in ("1", "1,0", "0,inf", "0,1,2"):
        assert "expected domain as two numbers, low < high" in cli("certify", *run[:-1], text, "--out", "x", code=2).err


def test_what_has_no_bound_reaches_none(certify, tmp_path):
    assert "its bound" not in certify("--out", tmp_path / "fixed").out
    paper = ("--method", "isotropic", "--paper", "--iterations", 2, "--out", tmp_path / "paper")
    assert "its bound" not in certify(*paper).out


@pytest.mark.parametrize("options", [("--paper",), ("--paper", "--iterations", 5), ("--limit", 4)])
def test_what_a_method_would_not_heed_is_refused(certify, tmp_path, options):
    said = certify(*options, "--out", tmp_path / "run", code=2).err
    assert f"expected no {options[0]} with --method fixed, which searches for no theta" in said
    assert not (tmp_path / "run").exists()


def test_an_earlier_run_that_did_not_heed_an_option_opens(certify, tmp_path, forge):
    certify("--out", tmp_path / "run")
    for idle in ({"limit": 4.0}, {"limit": None, "paper": True, "iterations": 5}):
        forge(tmp_path / "run", method="fixed", **idle)
        assert read_run(tmp_path / "run").configuration.method == "fixed"


BOX = """
import torch
from torch import nn

class Box(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return torch.from_numpy(self.inside(x).detach().numpy())

def make():
    torch.manual_seed(0)
    return Box()
"""
UNREADABLE = """
import threading
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.lock = nn.Linear(64, 10), threading.Lock()
    def forward(self, x):
        with self.lock:
            return self.linear(x.flatten(1))

def make(): return Net()
"""


def test_a_search_without_gradients_is_refused_before_the_run_begins(cli, tmp_path, monkeypatch):
    """Its remedy, another method, then works in the same folder, and with the same memory for life."""
    (tmp_path / "users_box.py").write_text(BOX)
    monkeypatch.chdir(tmp_path)
    options = ("--data", "digits", "--sigma", 0.25, "--n", 200, "--max", 2, "--rows", 160, "--precision", "float32")
    run = ("certify", "users_box:make", *options, "--memory", "m.sqlite", "--lifetime", "--out", "run")
    assert "got a black box: use Isotropic() (--method isotropic)" in cli(*run, code=1).err
    assert "finished: 2 inputs in run" in cli(*run, "--method", "isotropic").out


def test_a_network_that_cannot_be_hashed_needs_a_name(cli, tmp_path, monkeypatch):
    (tmp_path / "users_locked.py").write_text(UNREADABLE)
    monkeypatch.chdir(tmp_path)
    options = ("users_locked:make", "--data", "digits", "--sigma", 0.25, "--n", 100, "--max", 3, "--rows", 160)
    run = ("certify", *options, "--method", "fixed", "--out", "run")
    assert "--model-id" in cli(*run, code=1).err
    cli(*run, "--model-id", "locked 1")
    said = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (said["model_id"], said["model_hash"]) == (
        "locked 1",
        f"locked 1, {said['numerics']['precision']} on grid 2^-12",
    )
    assert "--model-id 'locked 1'" in said["command"]
    answered = cli("predict", *options, "--model-id", "locked 1", "--format", "json")
    assert json.loads(answered.out)["model_hash"] == said["model_hash"]
    assert "expected a value for --model-id, got an empty one" in cli(*run, "--model-id", "", code=2).err
    looked = ("diagnose", "users_locked:make", "--data", "digits", "--max", 2, "--votes", 20, "--json")
    assert "--model-id" in cli(*looked, code=1).err
    assert json.loads(cli(*looked, "--model-id", "locked 1").out)["inputs"] == 2


def test_ids_of_other_inputs_are_found_before_the_votes(certify, tmp_path):
    """Else all votes would be spent on certificates that the memory refuses."""
    data = digits("test")
    for name, part in (("a", slice(0, 3)), ("b", slice(3, 6))):
        np.savez(tmp_path / f"{name}.npz", x=data.x[part], y=data.y[part])

    def remembered(name, out, code=0):
        options = ("--method", "isotropic", "--memory", tmp_path / "m.sqlite", "--out", tmp_path / out)
        return certify("--data", tmp_path / f"{name}.npz", *options, code=code)

    remembered("a", "a")
    assert "expected the input that is stored with this id, got a different one" in remembered("b", "b", code=2).err
    assert not list(tmp_path.glob("b/unfinished/part-*"))
    remembered("a", "again")
