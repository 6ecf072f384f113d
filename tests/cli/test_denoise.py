"""A denoiser from training to every command that reads a run made with it."""

import json
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest

from anisocert.data import digits
from anisocert.engine import Network
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.models import Codebook, Denoiser, load, save
from anisocert.models.checkpoint import load_denoiser
from anisocert.runs import read_run
from anisocert.smoothing import Gaussian
from anisocert.train import Denoising, Sgd, train
from anisocert.work import load_job
from anisocert.work._certifier import _load
from anisocert.work.job import model_files

FEW = ("--n", "300", "--max", "6", "--device", "cpu", "--rows", "160")


@pytest.fixture(scope="module")
def denoiser(trained_digits, tmp_path_factory):
    data, folder = digits("train"), tmp_path_factory.mktemp("denoiser")
    recipe = replace(Denoising.for_sigma(0.4), classifier=load(trained_digits)[0])
    made = Denoiser("denoiser-small", data.shape, data.mean, data.std, levels=(recipe.low, recipe.high))
    train(made, data, recipe, Gaussian(0.4), sgd=Sgd(3, 64, 0.1), folder=folder)
    return folder / "last.safetensors"


@pytest.fixture(scope="module")
def run(quick, do, trained_digits, denoiser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("denoised")
    configuration = replace(
        quick, model=str(trained_digits), denoise=str(denoiser), sigma=0.4, method="isotropic", n=300, max=6,
        memory=str(folder / "memory.sqlite"),
    )  # fmt: skip
    assert do(configuration, folder / "run").finished
    return folder / "run"


def test_training_says_what_to_do_next(cli, trained_digits, tmp_path, monkeypatch):
    said = cli(
        "train", "--recipe", "denoiser", "--classifier", trained_digits, "--data", "digits", "--sigma", "0.4",
        "--levels", "0.2,0.6", "--epochs", "1", "--device", "cpu", "--out", tmp_path / "made",
    ).out  # fmt: skip
    file = tmp_path / "made" / "last.safetensors"
    assert "--arch denoiser-small" in said
    assert f"anisocert certify {trained_digits} --denoise {file} --data digits --norm l2 --sigma 0.4" in said
    monkeypatch.chdir(tmp_path)
    certified = ("certify", trained_digits, "--denoise", "made/last.safetensors", "--data", "digits", "--sigma", "0.4")
    said = cli(*certified, "--method", "fixed", *FEW, "--out", tmp_path / "run").out
    assert "note: its denoiser is told theta, and was trained for gaussian noise of 0.2 to 0.6" in said
    assert read_run(tmp_path / "run").configuration.denoise == str(file)  # so that it is found from elsewhere


def test_the_denoiser_is_part_of_the_runs_network(run, trained_digits):
    stored = read_run(run)
    c = stored.configuration
    assert Network(load(trained_digits)[0], 10, "cpu", c.numerics).hash != c.model_hash
    assert stored.network().told_theta
    assert any(row["prediction"] >= 0 for row in stored.rows)


def test_votes_drawn_again_tell_the_stored_theta(cli, run):
    said = cli("verify", run, "--recount", "6").out
    assert "6" in said
    assert len({float(np.max(theta)) for theta in read_run(run).thetas.values()}) > 1  # so that telling matters


def test_another_denoiser_is_not_the_runs(cli, run, tmp_path, trained_digits):
    cli(
        "train", "--recipe", "denoiser", "--classifier", trained_digits, "--data", "digits", "--sigma", "0.4",
        "--epochs", "1", "--told", "scalar", "--device", "cpu", "--out", tmp_path,
    )  # fmt: skip
    said = cli("verify", run, "--recount", "2", "--denoise", tmp_path / "last.safetensors", code=1)
    assert f"a different network: {trained_digits} behind the denoiser {tmp_path / 'last.safetensors'}" in said.out
    assert "drawn again" not in said.out
    asked = ("certify", trained_digits, "--denoise", tmp_path / "last.safetensors", "--data", "digits", *FEW)
    said = cli(*asked, "--sigma", "0.4", "--out", run, code=2).err.replace("\n", "")
    assert f" behind {tmp_path / 'last.safetensors'} (" in said
    said = cli(*asked, "--out", tmp_path / "run", code=2).err.replace("\n", " ")
    assert "use --sigma, of 0.1 to 0.8 for this denoiser" in said
    number = read_run(run).rows[0]["idx"]
    said = cli("show", run, number, "--recount", "--denoise", tmp_path / "last.safetensors", code=1).err
    assert "got none drawn" in said.replace("\n", " ")


def test_a_denoiser_that_was_moved_is_found_where_it_is_said_to_be(cli, run, denoiser, tmp_path):
    moved = tmp_path / "moved.safetensors"
    shutil.copy(denoiser, moved)
    description = json.loads((run / "run.json").read_text())
    assert description["denoise"] == str(denoiser)
    denoiser.rename(denoiser.with_suffix(".away"))
    try:
        said = cli("verify", run, "--recount", "1", code=2)
        assert "expected a denoiser file at" in said.out + said.err
        assert "say where it is with --denoise" in (said.out + said.err).replace("\n", " ")
        cli("verify", run, "--recount", "1", "--denoise", moved)
    finally:
        denoiser.with_suffix(".away").rename(denoiser)


def test_the_network_behind_it_may_learn_from_its_own_clean_answers(cli, denoiser, trained_digits, tmp_path):
    said = cli(
        "train", "--recipe", "distillation", "--classifier", trained_digits, "--denoise", denoiser, "--data", "digits",
        "--sigma", "0.4", "--epochs", "1", "--device", "cpu", "--out", tmp_path / "made",
    ).out  # fmt: skip
    file = tmp_path / "made" / "last.safetensors"
    assert f"anisocert certify {file} --denoise {denoiser} --data digits --norm l2 --sigma 0.4" in said
    run, typed = tmp_path / "run", ("--data", "digits", "--sigma", "0.4", "--method", "fixed", *FEW)
    said = cli("certify", file, "--denoise", denoiser, *typed, "--out", run)
    assert "fine-tuned" not in said.out + said.err
    assert "nothing wrong" in cli("verify", run, "--recount", "1").out
    with pytest.warns(AnisocertWarning, match="was fine-tuned behind a denoiser, got none: use --denoise FILE"):
        cli("certify", file, *typed, "--out", tmp_path / "none")
    for change in ("weights", "told"):
        other, known = load_denoiser(denoiser)
        if change == "weights":
            next(iter(other.parameters())).data += 0.01
        save(other, tmp_path / f"{change}.safetensors", known | ({"told": "scalar"} if change == "told" else {}))
        with pytest.warns(AnisocertWarning, match="was fine-tuned behind another denoiser than the one of --denoise"):
            cli("certify", file, "--denoise", tmp_path / f"{change}.safetensors", *typed, "--out", tmp_path / change)


def test_other_commands_take_it(cli, run, denoiser, trained_digits, tmp_path):
    number = next(row["idx"] for row in read_run(run).rows if row["prediction"] >= 0)
    assert cli("show", run, number, "--recount").out
    assert cli("attack", run, "--ids", number, "--device", "cpu").out
    assert cli("report", run, "--out", tmp_path / "report.html").out
    network = (trained_digits, "--denoise", denoiser, "--data", "digits", "--sigma", "0.4")
    assert "note: its denoiser is told theta" in cli("predict", *network, *FEW).err
    found = json.loads(
        cli("diagnose", *network, "--norm", "l2", "--max", "8", "--votes", "32", "--json", "--device", "cpu").out
    )
    assert found["remedies"] == []  # it has a denoiser


def test_workers_elsewhere_get_the_denoisers_file(run):
    c = read_run(run).configuration
    files = model_files(c)
    assert set(files) == {"digits.safetensors", "denoise/last.safetensors"}
    assert Network(_load(c, files), 10, "cpu", c.numerics).hash == c.model_hash


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--recipe", "denoiser"], "expected --classifier"),
        (["--recipe", "cohen", "--classifier", "x"], "with --recipe selector or denoiser or distillation and"),
        (["--recipe", "cohen", "--denoise", "x"], "expected --denoise with --recipe distillation and with no other"),
        (["--recipe", "distillation", "--classifier", "NET", "--arch", "resnet18"], "expected no --arch with"),
        (["--recipe", "distillation", "--classifier", "NET", "--denoise", "x.safetensors"], "expected a denoiser, a"),
        (["--recipe", "distillation", "--classifier", "NET", "--set", "denoiser=1"], "expected --set of nothing"),
        (["--recipe", "denoiser", "--classifier", "NET", "--told", "all"], "denoiser to be one of theta, scalar"),
        (["--recipe", "denoiser", "--classifier", "NET", "--levels", "1"], "expected --levels LOW,HIGH"),
        (["--recipe", "cohen", "--mean", "0.5"], "expected --mean with --classifier, which it is about, got it alone"),
        (["--recipe", "cohen", "--told", "theta"], "expected --told with --recipe denoiser and with no other"),
        (["--recipe", "denoiser", "--classifier", "absent", "--data", "absent.npz"], "/absent, where nothing is"),
        (["--recipe", "denoiser", "--classifier", "BOTH"], "got those of a codebook: name the file of one"),
        (["--recipe", "denoiser", "--classifier", "NET", "--set", "keep=inf"], "both finite"),
        (["--recipe", "denoiser", "--classifier", "NET", "--levels", "1,0.5"], "0 < low <= high"),
        (["--recipe", "denoiser", "--classifier", "NET", "--arch", "resnet18"], "architecture of a denoiser to be"),
        (["--recipe", "denoiser", "--classifier", "NET", "--set", "classifier=1"], "expected --set of reconstruct"),
    ],
)
def test_mistakes_are_named(cli, trained_digits, tmp_path, options, said):
    places = {"NET": trained_digits, "BOTH": tmp_path / "both.safetensors"}
    Codebook([0.5, 0.25], 0.5).save(places["BOTH"], [load(trained_digits)] * 2)
    typed = [str(places.get(one, one)) for one in options]
    found = cli("train", "--data", "digits", "--sigma", "0.4", "--out", tmp_path / "none", *typed, code=2)
    assert said in (found.out + found.err).replace("\n", " ")


def test_what_cannot_be_told_begins_no_run(cli, denoiser, trained_digits, tmp_path):
    """The corrected command is no other configuration than that of a run which never began."""
    typed = ("certify", trained_digits, "--denoise", denoiser, "--data", "digits", "--sigma", "0.4", *FEW)
    out, fixed = tmp_path / "run", ("--method", "fixed")
    mixture = ("--noise", "gaussian-mixture", "--components", "0.5:0.8,0.5:1.2")
    said = cli(*typed, *fixed, *mixture, "--out", out, code=2)
    assert "one component for a network that is told theta" in (said.out + said.err).replace("\n", " ")
    assert not out.exists()
    cli(*typed, *fixed, "--out", out)


def test_a_run_is_refused_before_its_folder_is_claimed(quick, do, denoiser, trained_digits, tmp_path):
    told = replace(
        quick, model=str(trained_digits), denoise=str(denoiser), sigma=0.4, method="fixed", n=300, max=6,
        noise="gaussian-mixture", components="0.5:0.8,0.5:1.2",
    )  # fmt: skip
    with pytest.raises(ArgumentError, match="one component for a network that is told theta"):
        do(told, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sigma": 0.4}, None),
        ({"sigma": 0.8}, None),
        ({"sigma": 1.6}, "the denoiser was trained for noise of 0.1 to 0.8, got 1.6: train one for it"),
        ({"sigma": 0.05}, "the denoiser was trained for noise of 0.1 to 0.8, got 0.05"),
        ({"sigma": 0.4, "norm": "l1"}, "the denoiser was trained for gaussian noise, got uniform"),
        ({"sigma": 0.8, "method": "cascade", "codebook": "CODES"}, "noise of 0.1 to 0.8, got 0.05"),
    ],
)
def test_noise_that_the_denoiser_was_not_trained_for(quick, denoiser, trained_digits, tmp_path, changed, said):
    Codebook([0.8, 0.05], 0.4).save(tmp_path / "codes.safetensors")
    given = {"codebook": str(tmp_path / "codes.safetensors")} if "codebook" in changed else {}
    told = replace(
        quick, model=str(trained_digits), denoise=str(denoiser), n=1000, **{"method": "fixed"} | changed | given
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        load_job(told).warn()
    doubts = [str(one.message) for one in found if "denoiser" in str(one.message)]
    assert len(doubts) == (said is not None)
    assert said is None or said in doubts[0]


def test_a_diagnosis_says_so_too(cli, denoiser, trained_digits):
    network = (trained_digits, "--denoise", denoiser, "--data", "digits", "--norm", "l2", "--max", "8", "--votes", "32")
    for sigma, said in (("0.4", False), ("0.02", True)):
        found = json.loads(cli("diagnose", *network, "--sigma", sigma, "--json", "--device", "cpu").out)
        assert any("the denoiser was trained for" in one for one in found["findings"]) == said
