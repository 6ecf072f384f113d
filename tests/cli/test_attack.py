"""`anisocert attack`, as a user calls it."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.evaluate import ADMITTED, EVERYONE, OR_ABSTAINS
from anisocert.runs.stored import read_run
from anisocert.work import add_to_memory

QUICK = ("--n", 1000, "--starts", 2, "--steps", 5, "--samples", 8)


@pytest.fixture(scope="module")
def made(quick, do, trained_digits, tmp_path_factory):
    """A run of four digits by the tighter bound, through a memory."""
    folder = tmp_path_factory.mktemp("attacked")
    asked = replace(quick, model=str(trained_digits), n=4000, bound="two-class", max=4)
    do(replace(asked, memory=str(folder / "memory.sqlite"), numerics=Numerics("float32", False, 800)), folder / "run")
    return folder


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made / "run", tmp_path / "run")


def inflate(rows, alpha=0.001, only=None):
    """Claim regions that are larger by half, with all else made to fit. only: the id of the one to enlarge."""
    for row in rows:
        row["alpha"] = alpha
        if only not in (None, row["idx"]):
            continue
        row["gap"] *= 1.5
        theta = np.float64(row["theta_min"]) * row["gap"] * (1 - 4 * np.finfo(float).eps)
        row["radius"] = row["proxy_radius"] = float(theta)


def test_nothing_is_broken(cli, run):
    said = cli("attack", run, *QUICK).out
    assert "4 certificates attacked: none broken, where the alphas of all attempts lead one to expect 0.00" in said
    assert "The answer was made to change for 4 of 4" in said
    assert f"What was attacked is {EVERYONE}: " in said
    assert "broken  " not in said


def test_what_was_promised_too_large_breaks_and_the_exit_code_says_so(cli, run, tmp_path, forge):
    forge(run, inflate)
    said = cli("attack", run, *QUICK, code=1)
    assert "broken, where the alphas of all attempts lead one to expect 0.004 at most." in said.out
    assert "a promise that does not hold" in said.out
    found = json.loads(cli("attack", run, *QUICK, "--json", "--out", tmp_path / "found.npz", code=1).out)
    assert found["failed"] is True
    assert found["attacked"] == 4
    assert found["expected"] == pytest.approx(0.004)
    assert found["broken"] >= 3
    points = np.load(tmp_path / "found.npz")
    stored = read_run(run)
    for i, one in enumerate(found["results"]):
        assert points["ids"][i] == one["id"]
        if one["broken"]:
            assert points["change_class"][i] == one["change"]["rival"] != points["promised"][i] == one["class"]
            radius = stored.column("radius")[list(stored.column("idx")).index(one["id"])]
            assert np.linalg.norm(points["change"][i] - points["inside"][i]) <= 2 * radius


def test_one_broken_certificate_is_enough_however_many_alpha_would_explain(cli, run, forge):
    forge(run, lambda rows: inflate(rows, alpha=0.4, only=15))
    said = cli("attack", run, *QUICK, code=1).out
    assert "4 certificates attacked: 1 broken, where the alphas of all attempts lead one to expect 1.6 at most." in said


def test_some_of_them(cli, run):
    found = json.loads(cli("attack", run, *QUICK, "--json", "--ids", "5,15").out)
    assert [one["id"] for one in found["results"]] == [5, 15]
    found = json.loads(cli("attack", run, *QUICK, "--json", "--max", 2).out)
    assert [one["id"] for one in found["results"]] == [0, 15]
    assert "which is not in it" in cli("attack", run, "--ids", "1", code=2).err


def test_the_system(cli, made, run):
    memory = made / "memory.sqlite"
    said = cli("attack", run, *QUICK, "--memory", memory).out
    assert said.startswith("4 promises attacked with ")
    assert "0 answers changed, 0 pairs of regions may meet" in said
    assert f"What was attacked is {ADMITTED}: an abstention would have counted as a change." in said
    found = json.loads(cli("attack", run, *QUICK, "--memory", memory, "--max", 1, "--json").out)
    assert (found["promises"], found["failed"], found["changed"]) == (1, False, [])
    with ac.Memory.open(memory) as opened:
        assert len(opened) == 4
    assert "without --ids" in cli("attack", run, "--memory", memory, "--ids", "0", code=2).err
    said = cli("attack", run, "--memory", run / "run.json", code=1).err
    assert said.startswith(f"error: {run / 'run.json'} is not a memory, or is damaged: ")


def test_the_system_of_a_weaker_policy(cli, run, tmp_path):
    described, x = read_run(run).description, digits("test").subset(most=4)
    with ac.Memory.open(tmp_path / "weak.sqlite", policy="abstain") as memory:
        add_to_memory(run, memory, dict(zip(x.ids.tolist(), x.x, strict=True)))
    assert described["memory"]["policy"] == "inherit"
    said = cli("attack", run, *QUICK, "--memory", tmp_path / "weak.sqlite").out
    count = re.search(r"(\d+) questions got no answer, as the memory's policy allows", said)[1]
    assert int(count) > 0
    assert f"What it promises is {OR_ABSTAINS}." in said


def test_another_network_is_refused(cli, run, trained_digits, tmp_path):
    from anisocert import models

    model, metadata = models.load(trained_digits)
    model.network.head.bias.data += 1
    models.save(model, tmp_path / "other.safetensors", metadata)
    said = cli("attack", run, "--model", tmp_path / "other.safetensors", code=2).err
    assert said.startswith("error: expected the network that ")


def test_a_run_that_promises_nothing(cli, run, forge):
    forge(run, lambda rows: [row.update(prediction=-1, radius=0.0, proxy_radius=0.0, gap=0.0) for row in rows])
    assert "expected a certificate to attack, got none" in cli("attack", run, code=2).err
