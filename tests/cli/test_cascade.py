"""Runs of a cascade with a network per code: everything that reads a run asks the right network."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anisocert.data import digits
from anisocert.errors import ArgumentError
from anisocert.evaluate import EVERYONE, results_of
from anisocert.models import Codebook, PerCode, build, load, save
from anisocert.report import assumptions, evidence_of
from anisocert.runs import read_run
from anisocert.runs.loading import load_model
from anisocert.smoothing import Gaussian, cap
from anisocert.smoothing.claims import alpha_of_cap
from anisocert.train import Cohen, Sgd, train
from anisocert.verify import verify
from anisocert.verify._codes import check_codes
from anisocert.verify.recounting import recount


@pytest.fixture(scope="module")
def codes(trained_digits, tmp_path_factory):
    """The file: code 0 has the trained network, code 1, the larger noise, one that has learnt little."""
    folder, data = tmp_path_factory.mktemp("codes"), digits("train")
    torch.manual_seed(0)
    network = build("small-cnn", 10, data.mean, data.std)
    train(network, data, Cohen(), Gaussian(0.5), sgd=Sgd.suited(len(data), 4), seed=0)
    said = {"architecture": "small-cnn", "num_classes": 10, "mean": data.mean, "std": data.std, "sigma": 0.5}
    save(network, folder / "half.safetensors", said)
    both = [load(trained_digits), load(folder / "half.safetensors")]
    Codebook([0.25, 0.5], 0.375).save(folder / "codes.safetensors", both)
    return folder / "codes.safetensors"


@pytest.fixture(scope="module")
def configuration(quick, codes):
    return replace(quick, model=str(codes), method="cascade", sigma=0.5, max=16, n=400, codebook=str(codes))


@pytest.fixture(scope="module")
def run(configuration, do, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cascade") / "run"
    assert do(configuration, folder).finished
    return folder


def test_a_run_verifies_and_its_votes_are_drawn_again(run):
    found = verify(run)
    assert found.ok, found.findings
    stored = read_run(run)
    assert {row["codes"] for row in stored.rows if row["prediction"] >= 0} == {"1", "1,0"}
    assert list(recount(stored, [row["idx"] for row in stored.rows])) == []
    with pytest.raises(ArgumentError, match=r"whose theta somebody chose, .*, got one by cascade"):
        list(recount(stored, [0], fresh=(100, 1)))
    assert results_of(stored).protects == EVERYONE


def test_no_input_has_less_than_with_fixed_noise(run, configuration, do, tmp_path):
    half = Path(configuration.model).with_name("half.safetensors")
    c = replace(configuration, model=str(half), method="fixed", codebook=None)
    assert do(c, tmp_path / "fixed").finished
    fixed, cascade = read_run(tmp_path / "fixed"), read_run(run)
    for one, other in zip(cascade.rows, fixed.rows, strict=True):
        if one["codes"] == "1":
            assert (one["radius"], one["top_votes"]) == (other["radius"], other["top_votes"])
    assert (cascade.column("radius") >= 0.9 * fixed.column("radius")).all()
    assert cascade.column("correct").sum() > fixed.column("correct").sum()


NONE = dict.fromkeys(("selector_top", "selector_votes", "selector_alpha", "selector_sigma", "cap"))


@pytest.mark.parametrize(
    ("asked", "change", "wrong"),
    [
        ("1", {"codes": None}, "lacks codes, on which method cascade rests"),
        ("1", {"cap": 3.0}, "has cap, which method cascade has not"),
        ("1,0", {"selector_top": 400}, "the selector's votes give"),
        ("1,0", {"cap": 3.0}, "cap is 3.0, the selector's votes give"),
        ("1,0", {"codes": "0"} | NONE, "theta is 0.25 under the first code of the cascade, the run's is 0.5"),
        ("1,0", {"radius": 5.0}, "radius is 5.0"),
        ("1,0", {"selector_votes": 10**7}, "selector_votes is 10000000, the plan's is 400"),
        ("1,0", {"codes": "1,1"}, "codes is '1,1', not distinct codes"),
        ("1,0", {"codes": "99,77"}, "in another order than"),
        ("1", {"codes": "0"}, "codes is '0', in another order than '1,0' in the same run"),
    ],
)
def test_a_row_that_claims_more_is_found(run, tmp_path, asked, change, wrong, changed):
    findings = verify(changed(run, tmp_path / "run", asked, **change)).findings
    assert any(wrong in str(finding) for finding in findings), findings


def test_a_cascade_is_judged_by_majorities(run, tmp_path, forge):
    """Whatever its run says: two classes may both have less than half, and the first lead."""
    shutil.copytree(run, tmp_path / "run")
    forge(tmp_path / "run", lambda rows: [row.update(bound="two-class") for row in rows], bound="two-class")
    assert "has bound two-class, where a cascade needs majorities" in str(verify(tmp_path / "run").findings)


@pytest.mark.parametrize(
    ("alone", "claimed", "wrong"),
    [
        (False, "1,0", "selector_sigma is 2.0, the run's is 0.5"),
        (True, "1,0", "selector_sigma is 2.0, the run's is 0.5"),
        (True, "1,0,2", "selector_sigma is 2.0, beyond the run's largest noise of 0.5"),
    ],
)
def test_a_noise_beyond_the_first_is_found(run, tmp_path, alone, claimed, wrong, forge, forge_theta):
    """With the cap and sizes that follow from it, and where no row is left that shows the first code by itself."""
    stored = read_run(run)
    rows = (row for row in stored.rows if row["prediction"] >= 0 and row["codes"] == "1,0")
    row = min(rows, key=lambda one: one["cap"] - one["radius"])
    values = {"selector_sigma": 4 * row["selector_sigma"], "codes": claimed}
    each = alpha_of_cap(row | values)
    values["cap"] = float(cap(Gaussian, row["selector_top"], row["selector_votes"], each, values["selector_sigma"]))
    region = Gaussian.region(np.zeros(64), np.full(64, row["theta_max"]), row["gap"], values["cap"])
    values |= {"radius": region.radius, "proxy_radius": region.proxy_radius}
    assert region.radius > row["radius"]
    first = [one["idx"] for one in stored.rows if one["codes"] == "1"] if alone else []
    out = shutil.copytree(run, tmp_path / "run")
    forge_theta(out, lambda thetas: [thetas.pop(str(number)) for number in first])

    def change(rows):
        next(one for one in rows if one["idx"] == row["idx"]).update(values)
        rows[:] = [one for one in rows if one["idx"] not in first]

    forge(out, change, inputs=len(stored) - len(first))
    (finding,) = verify(out).findings
    assert wrong in str(finding)


@pytest.mark.parametrize(("first", "wrong"), [([0.1, 10.0], 0), (0.5, 0), (0.3, 1)])
def test_a_later_code_may_have_a_larger_smallest_value_than_one_with_a_shape(first, wrong):
    """Codes go by their geometric mean; here the second, [0.5, 0.6], bounds the certificate of the third."""
    theta = np.array(first, np.float32)
    row = {"method": "cascade", "votes": 400, "sigma": float(theta.min())}
    rows = [row | {"idx": 0, "codes": "0", "selector_sigma": None}]
    rows += [row | {"idx": 1, "codes": "0,1,2", "selector_sigma": 0.5}]
    found = list(check_codes(rows, {0: theta, 1: np.full_like(theta, 0.2)}))
    assert [one.where for one in found] == ["example 1"] * wrong


@pytest.mark.parametrize(
    ("theta", "wrong"),
    [(0.75, "theta is 0.75, beyond the 0.5 of a code that is asked before"), (0.3, "than that of code 0 in the same")],
)
def test_a_theta_that_no_code_has_is_found(run, tmp_path, theta, wrong, forge, forge_theta):
    """With sizes that follow from it."""
    stored = read_run(run)
    row = next(row for row in reversed(stored.rows) if row["prediction"] >= 0 and row["codes"] == "1,0")
    other = np.full_like(stored.thetas[row["idx"]], theta)
    region = Gaussian.region(np.zeros(64), other, row["gap"], row["cap"])
    values = {"radius": region.radius, "proxy_radius": region.proxy_radius}
    values |= dict.fromkeys(("theta_min", "theta_max", "theta_geomean"), float(np.float32(theta)))
    out = shutil.copytree(run, tmp_path / "run")
    forge(out, lambda rows: next(one for one in rows if one["idx"] == row["idx"]).update(values))
    forge_theta(out, lambda thetas: thetas[str(row["idx"])].fill(theta))
    (finding, *others) = verify(out).findings
    assert wrong in str(finding)
    assert len(others) <= 1


def test_it_is_said_which_classifier_it_is(run):
    stored = read_run(run)
    number = next(row["idx"] for row in stored.rows if row["prediction"] >= 0)
    said = " ".join(assumptions(evidence_of(stored, number)))
    assert "more than half of the answers under the first noise, from the largest on" in said
    assert "The noises are Gaussian noise, as strong as the run's codebook says" in said


def test_predict_answers_as_the_cascade(run, codes, cli):
    told = cli("predict", codes, "--data", "digits", "--codebook", codes, "--max", 16, "--n", 400, "--format", "json")
    said = json.loads(told.out)
    assert (said["method"], said["sigma"]) == ("cascade", 0.5)
    given = {one["id"]: one["answer"] for one in said["answers"]}
    both = [(row["prediction"], given[row["idx"]]) for row in read_run(run).rows]
    assert all(one == other for one, other in both if min(one, other) >= 0)
    assert sum(min(pair) >= 0 for pair in both) > 4
    wrong = cli("predict", codes, "--data", "digits", "--sigma", 0.5, "--n", 400, code=2).err
    assert f"use --codebook {codes}" in "".join(wrong.split("\n")).replace("  ", " ")


def test_networks_are_asked_under_their_own_codes(configuration, tmp_path):
    Codebook([0.5, 0.25], 0.375).save(tmp_path / "turned.safetensors")
    with pytest.raises(ArgumentError, match=r"expected the codes of .*codes.safetensors, .* got others in .*turned"):
        load_model(replace(configuration, codebook=str(tmp_path / "turned.safetensors")))
    Codebook([0.25, 0.5], 1.0).save(tmp_path / "same.safetensors")
    assert load_model(replace(configuration, codebook=str(tmp_path / "same.safetensors")))[0].order == (1, 0)


def test_it_is_said_which_codes_were_asked(run, cli):
    number = next(row["idx"] for row in read_run(run).rows if row["prediction"] >= 0 and row["codes"] == "1,0")
    told = " ".join(cli("show", run, number, "--recount").out.split())
    assert "no other class has a majority under code 1: at most" in told


def test_files_may_move(run, codes, cli, tmp_path):
    moved = tmp_path / "elsewhere.safetensors"
    held = codes.rename(moved)
    try:
        assert "say where it is with --model" in cli("verify", run, "--recount", 1, code=2).err
        assert "nothing wrong" in cli("verify", run, "--recount", 1, "--model", moved).out
        assert "nothing wrong" in cli("verify", run, "--recount", 1, "--model", moved, "--codebook", moved).out
        first = cli(
            "attack", run, "--first", "--max", 2, "--radius", 0.1, "--starts", 1, "--steps", 2, "--model", moved
        )
        assert "certified for everyone" in first.out
        assert "use attack_first" in " ".join(cli("attack", run, "--max", 2, "--model", moved, code=2).err.split())
    finally:
        held.rename(codes)


def test_the_command_line_makes_and_certifies_it(cli, trained_digits, codes, tmp_path):
    half, out = codes.with_name("half.safetensors"), tmp_path / "codes.safetensors"
    make = ("codebook", "--scalars", "0.25,0.5", "--out", out)
    told = cli(*make, "--networks", f"{trained_digits},{half}").out
    assert "2 codes" in told
    assert "small-cnn, trained with 0.5" in told
    assert Codebook.load(out).sigma == 0.5
    assert isinstance(load(out)[0], PerCode)
    command = ("certify", out, "--data", "digits", "--max", 2, "--n", 200, "--out", tmp_path / "run")
    told = cli(*command, "--method", "cascade", "--codebook", out)
    assert "sigma 0.5, the largest noise of" in " ".join(told.out.split())
    assert read_run(tmp_path / "run").configuration.sigma == 0.5
    assert "expected a method that asks the networks of a codebook" in cli(
        *command[:-1], tmp_path / "other", "--method", "fixed", "--sigma", 0.5, code=2
    ).err.replace("\n", " ")
    wrong = cli(*make, "--force", "--networks", half, code=2).err
    assert "expected one network per code, 2, got 1" in " ".join(wrong.split())


def test_workers_elsewhere_get_all_files(configuration):
    from anisocert.work import load_job
    from anisocert.work._certifier import Certifier
    from anisocert.work.job import model_files

    there = model_files(configuration)
    assert sorted(there) == ["codebook/codes.safetensors", "codes.safetensors"]
    made = Certifier(replace(configuration, codebook="gone"), None, "cpu", files=there)
    here = load_job(configuration).model
    for name, value in here.state_dict().items():
        assert torch.equal(made.model.state_dict()[name], value)


def test_a_selector_is_not_for_a_cascade(configuration):
    with pytest.raises(ArgumentError, match="expected selector, a file, with method selected or two-step"):
        replace(configuration, selector="a.safetensors")
