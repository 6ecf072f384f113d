import json
import shutil
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from anisocert.bounds import Plan
from anisocert.certification import certify
from anisocert.data import digits
from anisocert.engine import Network, Numerics
from anisocert.models import build, save
from anisocert.smoothing import Gaussian


@pytest.fixture(scope="module")
def made(write_run, tmp_path_factory):
    folder, data = tmp_path_factory.mktemp("made"), digits("test").subset(most=5)
    torch.manual_seed(0)
    model = build("small-cnn", 10, data.mean, data.std).eval()
    save(model, folder / "net.safetensors", {"architecture": "small-cnn", "num_classes": 10} | stats_of(data))
    network = Network(model, 10, numerics=Numerics("float32", False, 96))
    found = certify(network, data.x, ids=data.ids.tolist(), smoothing=Gaussian(0.1), plan=Plan(n=200))
    described = {
        "model": str(folder / "net.safetensors"), "sigma": 0.1, "n": 200, "device": "cpu", "numerics": network.numerics,
    }  # fmt: skip
    write_run(folder / "run", found, data.y, **described)
    return folder / "run"


def stats_of(data):
    return {"mean": data.mean, "std": data.std}


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def test_nothing_wrong(cli, run):
    said = cli("verify", run)
    assert said.out == f"{run}: nothing wrong; 2 files checked, 5 rows recomputed\n"
    assert said.err == ""


def test_one_line_a_finding(cli, run, forge):
    forge(run, lambda rows: rows[0].update({name: rows[0][name] * 2 for name in ("theta_min", "theta_max")}))
    lines = cli("verify", run, code=1).out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("example 0: theta_min is ")
    assert lines[-1] == f"{run}: 2 things wrong; 2 files checked, 5 rows recomputed"
    (run / "certificates.parquet").write_bytes(b"")
    lines = cli("verify", run, code=1).out.splitlines()
    assert lines[0].startswith("certificates.parquet: is not the file that the run wrote: SHA-256 e3b0c442")
    assert lines[-1].startswith(f"{run}: 1 thing wrong")
    # What cannot be trusted is not counted again.
    assert len(cli("verify", run, "--recount", 2, code=1).out.splitlines()) == len(lines)


def test_json(cli, run, forge):
    said = json.loads(cli("verify", run, "--json", "--recount", 2).out)
    assert said["ok"] is True
    assert (said["files"], said["rows"], len(said["recounted"]), said["findings"]) == (2, 5, 2, [])
    forge(run, lambda rows: rows[0].update(correct=not rows[0]["correct"]))
    said = json.loads(cli("verify", run, "--json", code=1).out)
    assert said["ok"] is False
    assert [finding["where"] for finding in said["findings"]] == ["example 0"]
    assert said["findings"][0]["what"].startswith("correct is ")


def test_recount(cli, run, forge):
    assert "votes of 5 drawn again (ids 0, 5, 10, 15, 20)" in cli("verify", run, "--recount", 100).out
    forge(run, lambda rows: rows[0].update(label=(rows[0]["label"] + 1) % 10, correct=False))
    said = cli("verify", run, "--recount", 5, code=1).out
    assert "example 0: label is" in said
    described = json.loads((run / "run.json").read_text())
    forge(run, versions=described["versions"] | {"torch": "1.0"})
    said = cli("verify", run, "--recount", 5, code=1).out
    assert "note: torch 1.0 made the run, here it is " in said
    assert "a few votes need not be anyone's fault" in said


def test_what_a_recount_finds_again_is_said_once(cli, run, forge):
    forge(run, lambda rows: [row.update(bound_n=None) for row in rows[:4]])
    lines = cli("verify", run, "--recount", 5, code=1).out.splitlines()
    assert lines[:-1] == [f"example {number}: lacks bound_n" for number in (0, 5, 10, 15)]
    assert lines[-1].endswith("4 things wrong; 2 files checked, 1 rows recomputed, votes of 1 drawn again (ids 20)")


def test_fresh_votes(cli, run):
    said = cli("verify", run, "--recount", 2, "--fresh", 200).out
    assert "5 rows recomputed, 200 fresh votes each for 2 (ids " in said
    seeds = {cli("verify", run, "--recount", 1, "--fresh", 100).out.splitlines()[0] for _ in range(2)}
    assert len(seeds) == 2
    assert all(line.startswith("note: fresh votes are those of seed ") for line in seeds)
    assert "expected --recount K with --fresh" in cli("verify", run, "--fresh", 100, code=2).err


@pytest.mark.parametrize("option", ["--model", "--denoise", "--codebook", "--selector", "--data", "--device"])
def test_what_only_votes_need_is_not_taken_for_looked_at(cli, run, option):
    said = cli("verify", run, option, "elsewhere", code=2)
    assert f"expected --recount K with {option}, the number of rows to draw votes for, got none" in said.err
    assert "nothing wrong" not in said.out


def test_recount_with_a_network_that_is_elsewhere(cli, run, tmp_path, forge):
    described = json.loads((run / "run.json").read_text())
    net = shutil.copy(described["model"], tmp_path / "moved.safetensors")
    forge(run, model="/nowhere/net.safetensors")
    said = cli("verify", run, "--recount", 1, code=2)
    assert said.err.startswith("error: expected a network file")
    assert "votes of 1 drawn again" in cli("verify", run, "--recount", 1, "--model", net).out
    forge(run, model=described["model"], device="cuda")
    assert "it draws other noise" in cli("verify", run, "--recount", 1, "--device", "cpu", code=2).err


PAYLOAD = """
from pathlib import Path
Path("executed").write_text("by a run")
raise SystemExit(0)
"""
EXITING = """
import sys, torch
class Exiting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
    def forward(self, x):
        sys.exit(0)
def go():
    return Exiting()
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to be in, with modules that a stranger has left there."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "stranger.py").write_text(PAYLOAD)
    (tmp_path / "here" / "exiting.py").write_text(EXITING)
    monkeypatch.chdir(tmp_path / "here")
    for name in ("stranger", "exiting"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / "here"


@pytest.mark.parametrize("option", ["model", "denoise"])
@pytest.mark.parametrize(
    "command", [("verify", "--recount", 1), ("show", "--recount"), ("attack",), ("report", "--figures", "figures")]
)
def test_a_run_that_somebody_sent_executes_nothing(cli, run, here, command, option, forge):
    """All checksums fit; the payload would leave a file and end the process with exit code 0."""
    forge(run, **{option: "stranger:go"})
    name, *options = command
    where = (run, 0) if name == "show" else (run,)
    said = cli(name, *where, *options, code=0 if name == "report" else 2)
    assert not (here / "executed").exists()
    if name != "report":  # which leaves out what needs the network
        assert "was made with stranger:go, and a run may not name code that is executed" in said.err
        assert f"type --{option} stranger:go" in said.err


def test_code_that_is_typed_cannot_exit_for_the_command(cli, run, here, forge):
    said = cli("verify", run, "--recount", 1, "--model", "stranger:go", code=1)
    assert said.err.endswith("got an exit with code 0\n")
    assert (here / "executed").exists()
    forge(run, model_hash=hash_of_exiting())
    said = cli("verify", run, "--recount", 1, "--model", "exiting:go", code=1)
    assert "ended it with exit code 0" in said.err
    assert "nothing wrong" not in said.out


def hash_of_exiting():
    from anisocert.models import load

    return Network(load("exiting:go")[0], 10, numerics=Numerics("float32", False, 96)).hash


@pytest.mark.parametrize("imported", [{}, {"file": "a.tsv"}, None, True])
def test_a_run_with_votes_is_recomputed_whatever_it_calls_itself(cli, run, imported, forge):
    forge(run, imported=imported)
    assert "nothing wrong; 2 files checked, 5 rows recomputed" in cli("verify", run).out
    forge(run, lambda rows: rows[0].update(radius=9.9))
    assert "example 0: radius is 9.9" in cli("verify", run, code=1).out


def test_rows_without_votes_are_not_recomputed_and_that_is_the_verdict(cli, run, forge):
    none = dict.fromkeys(("top_votes", "runner_up_votes", "votes", "bound_k", "bound_n"))
    first = pq.read_table(run / "certificates.parquet").to_pylist()[0]
    forge(run, lambda rows: [row.update(none) for row in rows], imported={})
    lines = cli("verify", run, code=3).out.splitlines()
    assert lines[0].startswith("not recomputed: rows: imported without the votes")
    assert lines[1].startswith(f"{run}: nothing wrong found, but not everything was recomputed; ")
    said = json.loads(cli("verify", run, "--json", code=3).out)
    assert (said["ok"], len(said["not_recomputed"]), said["rows"]) == (True, 1, 0)
    forge(run, lambda rows: rows[0].update(first))
    assert "example 5: lacks top_votes" in cli("verify", run, code=1).out


def test_a_memory_that_is_elsewhere(cli, run, tmp_path):
    from anisocert.memory import Memory
    from anisocert.runs import read_run
    from anisocert.work import add_to_memory

    inputs = read_run(run).inputs()
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        add_to_memory(run, memory, {number: inputs(number) for number in read_run(run).column("idx").tolist()})
    assert "nothing wrong; " in cli("verify", run).out
    moved = (tmp_path / "memory.sqlite").rename(tmp_path / "moved.sqlite")
    said = cli("verify", run, code=3).out
    assert said.startswith(f"not recomputed: the memory's columns: its memory is not at {tmp_path / 'memory.sqlite'}")
    assert "nothing wrong; " in cli("verify", run, "--memory", moved).out
    cli("report", run, "--out", tmp_path / "report.html")
    assert "The numbers after the memory were not derived again: its memory is not at" in (
        tmp_path / "report.html"
    ).read_text("utf-8")


def test_from_another_folder_it_says_what_to_pass(cli, run, tmp_path, forge):
    np.savez(tmp_path / "tests.npz", x=digits("test").x, y=digits("test").y, ids=digits("test").ids)
    forge(run, data="gone/tests.npz")
    assert "say where they are with --data" in cli("verify", run, "--recount", 1, code=2).err
    assert "drawn again" in cli("verify", run, "--recount", 1, "--data", tmp_path / "tests.npz").out
    forge(run, model="gone/net.safetensors")
    assert "say where it is with --model" in cli("verify", run, "--recount", 1, code=2).err


def test_bad_paths(cli, tmp_path):
    assert "does not exist" in cli("verify", tmp_path / "no", code=2).err
    assert cli("verify", tmp_path, code=2).err == (
        f"error: expected a finished run, a folder with run.json, got {tmp_path}\n"
    )


def test_float32_theta_of_the_run_is_what_is_verified(run):
    """The row says 0.1, the noise was drawn with the nearest float32: the region is of the latter."""
    row = pq.read_table(run / "certificates.parquet").to_pylist()[0]
    assert row["theta_min"] == float(np.float32(0.1)) != row["sigma"]
