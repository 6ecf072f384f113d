"""Runs whose noise a selector chooses: everything that reads a run sees the selector's part."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from anisocert.data import digits
from anisocert.errors import ArgumentError
from anisocert.evaluate import EVERYONE, results_of
from anisocert.models import Codebook, build, save
from anisocert.report import assumptions, evidence_of
from anisocert.runs import read_run
from anisocert.smoothing import Gaussian, cap
from anisocert.train import Cohen, Sgd, train
from anisocert.verify import verify
from anisocert.verify.recounting import recount


@pytest.fixture(scope="module")
def configuration(quick, trained_digits, tmp_path_factory):
    """A third of the digits gets each code."""
    folder = tmp_path_factory.mktemp("codes")
    Codebook([0.125, 0.25, 0.5], 0.375).save(folder / "codes.safetensors")
    data = digits("train")
    torch.manual_seed(0)
    selector = build("small-cnn", 3, data.mean, data.std)
    train(selector, replace(data, y=data.y // 4), Cohen(), Gaussian(0.375), sgd=Sgd.suited(len(data), 4), seed=0)
    said = {"architecture": "small-cnn", "num_classes": 3, "mean": data.mean, "std": data.std}
    save(selector, folder / "selector.safetensors", said)
    return replace(
        quick, model=str(trained_digits), method="selected", sigma=0.375, max=12,
        codebook=str(folder / "codes.safetensors"), selector=str(folder / "selector.safetensors"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(configuration, do, tmp_path_factory):
    folder = tmp_path_factory.mktemp("selected") / "run"
    assert do(configuration, folder).finished
    return folder


@pytest.fixture(scope="module")
def two_step(configuration, do, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two-step") / "run"
    assert do(replace(configuration, method="two-step"), folder).finished
    return folder


def test_a_run_verifies_and_its_votes_are_drawn_again(run):
    found = verify(run)
    assert found.ok, found.findings
    stored = read_run(run)
    assert {row["codes"] for row in stored.rows} <= {"0", "1", "2"}
    assert len({row["codes"] for row in stored.rows}) > 1
    some = [row for row in stored.rows if row["prediction"] >= 0]
    assert some
    assert any(row["radius"] == pytest.approx(row["cap"], rel=1e-12) for row in some)
    assert any(row["votes"] == 0 for row in stored.rows)
    assert list(recount(stored, [row["idx"] for row in stored.rows])) == []
    assert results_of(stored).protects == EVERYONE


def test_a_run_of_two_steps_verifies_and_its_votes_are_drawn_again(two_step):
    found = verify(two_step)
    assert found.ok, found.findings
    stored = read_run(two_step)
    assert any("," in row["codes"] for row in stored.rows)
    assert sum(row["prediction"] >= 0 for row in stored.rows) > 3
    assert list(recount(stored, [row["idx"] for row in stored.rows])) == []
    assert results_of(stored).protects == EVERYONE


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"codes": None}, "lacks codes, on which method two-step rests"),
        ({"cap": 3.0}, "has cap, which method two-step has not"),
        ({"selector_sigma": None}, "lacks selector_sigma, on which method two-step rests"),
        ({"selector_top": 0}, "and 0 for its codes"),
        ({"selector_sigma": 0.75}, "selector_sigma is 0.75, the run's is 0.375"),
        ({"runner_up_votes": 3}, "has 3 votes against"),
        ({"radius": 5.0}, "radius is 5.0"),
    ],
)
def test_a_row_of_two_steps_that_claims_more_is_found(two_step, tmp_path, change, wrong, changed):
    findings = verify(changed(two_step, tmp_path / "run", **change)).findings
    assert any(wrong in str(finding) for finding in findings), findings


def test_theta_of_two_steps_is_drawn_again(two_step, tmp_path, changed, forge_theta):
    """Noise that no code has: the votes are the run's, and theta is not."""
    stored = read_run(two_step)
    row = next(row for row in stored.rows if row["prediction"] >= 0)
    theta = np.float32(1.0009765625) * stored.thetas[row["idx"]]
    wide = theta.astype(np.float64)
    region = Gaussian.region(np.zeros((1, 8, 8)), theta, row["gap"])
    values = {
        "radius": region.radius, "proxy_radius": region.proxy_radius, "theta_min": wide.min(),
        "theta_max": wide.max(), "theta_geomean": float(np.exp(np.log(wide).mean())),
    }  # fmt: skip
    out = changed(two_step, tmp_path / "run", **values)
    forge_theta(out, lambda thetas: thetas.update({str(row["idx"]): np.atleast_1d(theta)}))
    assert verify(out).ok
    (finding,) = recount(read_run(out), [row["idx"]])
    assert "theta is not what votes drawn again choose" in str(finding)


def test_no_theta_of_two_steps_reaches_the_noise_of_the_selector(two_step, tmp_path, changed, forge_theta):
    """tau is smaller than sigma, whatever the codes are: that is seen without their file."""
    stored = read_run(two_step)
    row = next(row for row in stored.rows if row["prediction"] >= 0)
    theta = 8 * np.atleast_1d(stored.thetas[row["idx"]])
    sizes = {name: 8 * row[name] for name in ("radius", "proxy_radius", "theta_min", "theta_max", "theta_geomean")}
    out = changed(two_step, tmp_path / "run", **sizes)
    forge_theta(out, lambda thetas: thetas.update({str(row["idx"]): theta}))
    (finding,) = verify(out).findings
    assert "beyond the selector's noise of 0.375" in str(finding)


def test_an_attack_on_selected_codes_breaks_nothing(run, cli):
    few = ("--n", 300, "--starts", 2, "--steps", 3, "--samples", 4)
    results = json.loads(cli("attack", run, "--max", 3, *few, "--json").out)["results"]
    assert "one classifier, whose noise is chosen from a codebook" in cli("attack", run, "--max", 1, *few).out
    assert len(results) == 3
    assert not any(one["broken"] for one in results)


def test_two_steps_have_no_theta_to_attack(two_step, cli):
    said = cli("attack", two_step, "--max", 1, code=2)
    assert "expected certificates of a classifier under the noise of its theta, got two-step" in said.err


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"cap": None}, "lacks cap, on which method selected rests"),
        ({"cap": 3.0}, "cap is 3.0, the selector's votes give"),
        ({"selector_top": 200}, "cap is "),
        ({"selector_sigma": 0.75}, "selector_sigma is 0.75, the run's is 0.375"),
        ({"selector_alpha": 0.0009}, "selector_alpha is 0.0009, its share of"),
        ({"radius": 5.0}, "radius is 5.0"),
        ({"selector_votes": 10**7}, "selector_votes is 10000000, the plan's is"),
        ({"codes": "0,1"}, "codes is '0,1', not one code"),
    ],
)
def test_a_row_that_claims_more_is_found(run, tmp_path, change, wrong, changed):
    findings = verify(changed(run, tmp_path / "run", **change)).findings
    assert any(wrong in str(finding) for finding in findings), findings


def test_votes_of_the_selector_that_nobody_cast_are_found_by_drawing_them_again(run, tmp_path, forge):
    stored = read_run(run)
    row = next(row for row in stored.rows if row["prediction"] >= 0 and row["selector_top"] < 199)
    far = float(cap(Gaussian, 199, row["selector_votes"], row["selector_alpha"], row["selector_sigma"]))
    region = Gaussian.region(np.zeros((1, 8, 8)), stored.thetas[row["idx"]], row["gap"], far)
    values = {"selector_top": 199, "cap": far, "radius": region.radius, "proxy_radius": region.proxy_radius}
    out = shutil.copytree(run, tmp_path / "run")
    forge(out, lambda rows: next(one for one in rows if one["idx"] == row["idx"]).update(values))
    assert verify(out).ok
    (finding, _) = recount(read_run(out), [row["idx"]])
    assert f"selector_top is 199, votes drawn again give {row['selector_top']}" in str(finding)


def test_a_selector_takes_part_in_every_vote_of_two_steps(two_step, tmp_path, changed):
    findings = verify(changed(two_step, tmp_path / "run", selector_votes=10**7)).findings
    assert any("has 10000000 votes of the selector, of the" in str(finding) for finding in findings), findings


def test_it_is_said_which_classifier_it_is(run, two_step):
    for folder, words in ((run, "under the noise that a selector names"), (two_step, "from one noisy copy")):
        stored = read_run(folder)
        number = next(row["idx"] for row in stored.rows if row["prediction"] >= 0)
        said = " ".join(assumptions(evidence_of(stored, number)))
        assert words in said
        assert "network, selector and codebook are one function (hash" in said


def test_another_selector_or_codebook_is_another_network(run, tmp_path):
    stored = read_run(run)
    Codebook([0.125, 0.25, 0.51], 0.375).save(tmp_path / "codes.safetensors")
    other = {**stored.description, "codebook": str(tmp_path / "codes.safetensors")}
    with pytest.raises(ArgumentError, match="got a different network"):
        type(stored)(stored.folder, other, stored.table).network()
    with pytest.raises(ArgumentError, match="expected a codebook file at nowhere"):
        type(stored)(stored.folder, {**other, "codebook": "nowhere"}, stored.table).network()
    with pytest.raises(ArgumentError, match="expected --selector with a function that you trust"):
        type(stored)(stored.folder, {**other, "selector": "os:getcwd"}, stored.table).network()


def test_show_says_how_surely_the_code_is_named(run, cli):
    row = next(row for row in read_run(run).rows if row["prediction"] >= 0)
    shown = cli("show", run, row["idx"]).out
    assert "certified for everyone" in " ".join(shown.split())
    assert f"{row['selector_top']:,} of {row['selector_votes']:,}" in shown
    lost = next(row for row in read_run(run).rows if not row["votes"])
    shown = " ".join(cli("show", run, lost["idx"], "--recount").out.split())
    assert "the selector names no code surely enough" in shown


def test_a_diagnosis_says_what_the_selector_loses(configuration, cli):
    c = configuration
    command = ("diagnose", c.model, "--data", "digits", "--sigma", "0.25", "--norm", "l2", "--max", 8, "--votes", 50)
    found = json.loads(cli(*command, "--codebook", c.codebook, "--selector", c.selector, "--json").out)
    assert sum(found["captured"]["named"]) == pytest.approx(1)
    assert 0.4 < found["captured"]["share"] <= 1
    assert 0 < found["captured"]["reach"] < 0.375 * 3.9
    assert any("the selector names codes for these shares" in one for one in found["findings"])


def test_the_command_line_takes_sigma_from_the_codebook(configuration, cli, tmp_path):
    c = configuration
    arguments = ["certify", c.model, "--data", "digits", "--method", "selected", "--n", 200, "--max", 2]
    told = cli(*arguments, "--codebook", c.codebook, "--selector", c.selector, "--out", tmp_path / "run", "--json")
    assert json.loads(told.out)
    assert read_run(tmp_path / "run").configuration.sigma == 0.375
    with pytest.raises(ArgumentError, match=r"expected codebook, a file, with method cascade .*`anisocert codebook` m"):
        replace(c, codebook=None)
    with pytest.raises(ArgumentError, match=r"expected selector, a file, .*`anisocert train --recipe selector` makes"):
        replace(c, selector=None)
    with pytest.raises(ArgumentError, match="expected codebook, a file, with method cascade or selected"):
        replace(c, method="fixed")


def test_workers_elsewhere_get_all_files(configuration):
    from anisocert.work import load_job
    from anisocert.work._certifier import Certifier
    from anisocert.work.job import model_files

    there = model_files(configuration)
    assert sorted(there) == ["codebook/codes.safetensors", "digits.safetensors", "selector/selector.safetensors"]
    made = Certifier(replace(configuration, codebook="gone", selector="gone"), None, "cpu", files=there)
    here = load_job(configuration).model
    for name, value in here.state_dict().items():
        assert torch.equal(made.model.state_dict()[name], value)
