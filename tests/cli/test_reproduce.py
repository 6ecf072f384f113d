"""`anisocert reproduce`: a small experiment, whole."""

from pathlib import Path

import numpy as np
import pytest

from anisocert.evaluate import compare
from anisocert.reproduce.publishing import FOLLOWING
from anisocert.runs import read_run

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SMALL = """
data = "digits"
[train]
arch = "small-cnn"
epochs = 1
[certify]
n = 300
rows = 320
max = 2
[methods.ours]
method = "anisotropic"
memory = true
[methods.average]
method = "average"
average-of = "ours"
[[networks]]
recipe = "cohen"
sigma = 0.25
"""
ATTACK = """first = ["ours"]
[first]
multiples = [0.5]
n = 20
starts = 1
steps = 1
samples = 2
"""


def test_an_experiment_ends_in_runs_that_can_be_compared_without_their_thetas(cli, tmp_path):
    y = np.arange(40) % 2  # dark and bright
    x = (0.9 * y[:, None, None, None] + np.zeros((1, 8, 8))).astype(np.float32)
    np.savez(tmp_path / "few.npz", x=x, y=y)
    easy = SMALL.replace('"digits"', f'"{tmp_path / "few.npz"}"').replace("epochs = 1", "epochs = 20")
    (tmp_path / "small.toml").write_text(easy + ATTACK)
    command = ("reproduce", tmp_path / "small.toml", "--out", tmp_path / "work")
    plan = cli(*command, "--dry-run").out
    assert plan.count("anisocert certify") == 2
    assert plan.endswith("# 4 stages: 1 train, 2 certify, 1 attack\n")
    assert not (tmp_path / "work").exists()
    assert "4 of 4 stages done" in cli(*command, "--results", tmp_path / "results").out
    whole = read_run(tmp_path / "work" / "runs" / "cohen-0.25" / "ours")
    assert whole.attacked.radii.tolist() == [0.0, 0.125]
    runs = [read_run(tmp_path / "results" / "cohen-0.25" / name) for name in ("ours", "average")]
    assert runs[0].has_memory
    assert runs[0].table == whole.table.drop_columns([name for name in FOLLOWING if name in whole.table.column_names])
    assert not set(FOLLOWING) & set(runs[0].table.column_names)
    kept, made = (path / "certificates.parquet" for path in (runs[0].folder, whole.folder))
    assert kept.stat().st_size < 0.8 * made.stat().st_size
    assert [run.said("probe") for run in runs] == [None, None]
    assert read_run(tmp_path / "work" / "runs" / "cohen-0.25" / "ours").said("probe")
    assert all((run.column("radius") > 0).all() for run in runs)
    told = cli("verify", runs[0].folder, code=3).out
    assert "published without theta" in told
    assert "0 rows recomputed" in told
    (comparison,) = compare(runs)
    assert len(comparison) == 2
    assert {entry.before.method for entry in comparison.entries} == {"anisotropic", "average"}
    assert "started" not in cli(*command).out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("epochs = 1", "epoch = 1", "train cohen-0.25: no such option: --epoch; did you mean --epochs?"),
        ("epochs = 1", "epochs = 0", "train cohen-0.25: expected epochs >= 1"),
        ("epochs = 1", 'epochs = "two"', "train cohen-0.25: invalid value for '--epochs'"),
        ("epochs = 1", 'set = ["epsilon=1"]', "expected --set of nothing with cohen, got 'epsilon=1'"),
        ('arch = "small-cnn"', 'arch = "small"', "expected architecture to be one of small-cnn, "),
        ('recipe = "cohen"', 'recipe = "kohen"', "expected --recipe to be one of cohen"),
        ("sigma = 0.25", "sigma = -1", "train cohen--1: expected sigma positive and finite, got -1.0"),
        ('"anisotropic"', '"fixedd"', "certify cohen-0.25 ours: expected method to be one of fixed, isotropic"),
        ("n = 300", "n = 0", "certify cohen-0.25 ours: expected n in"),
        ("n = 300", 'split = "tset"', "expected split to be one of train, test, got 'tset'"),
        ("n = 300", "limit = 0.5", "expected limit >= 1, got 0.5"),
        ("n = 300", "skip = 0", "certify cohen-0.25 ours: expected skip >= 1, got 0"),
        ("n = 300", 'ids = "x"', "expected ids as in 3,17,100-199, got 'x'"),
        ("n = 300", "seed = -1", "expected seed: whole numbers"),
        ("sigma = 0.25", 'sigma = 0.25\nfirst = ["ours"]\n[first]\nmultiple = [1]', "no such option: --multiple"),
        ('method = "average"\naverage-of', 'memory-prefer = "bal"\nof', "expected 'volume' or 'ball', got 'bal'"),
    ],
)
def test_a_dry_run_refuses_what_a_stage_would(cli, tmp_path, old, new, words):
    (tmp_path / "small.toml").write_text(SMALL.replace(old, new))
    command = ("reproduce", tmp_path / "small.toml", "--out", tmp_path / "work")
    said = cli(*command, "--dry-run", code=2)
    assert said.err.startswith(f"error: {tmp_path}/small.toml: ")
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""
    assert cli(*command, code=2).err == said.err
    assert not (tmp_path / "work").exists()


def test_no_stage_matches(cli, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    said = cli("reproduce", tmp_path / "small.toml", "--out", tmp_path / "work", "--only", "*macer*", code=2)
    assert "'train cohen-0.25'" in said.err
    assert not (tmp_path / "work").exists()


def test_several_patterns_choose_what_any_of_them_matches(cli, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    command = ("reproduce", tmp_path / "small.toml", "--out", tmp_path / "work", "--dry-run", "--only", "train *")
    assert cli(*command).out.endswith("# 1 stages: 1 train\n")
    assert cli(*command, "--only", "* average").out.endswith("# 2 stages: 1 train, 1 certify\n")
    assert "got '*macer*'" in cli(*command, "--only", "*macer*", code=2).err


def test_stages_that_are_needed_but_not_chosen_are_named(cli, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    said = cli("reproduce", tmp_path / "small.toml", "--out", tmp_path / "work", "--only", "* average", code=1).out
    assert "0 of 1 stages done, 0 failed" in said
    assert (
        "got neither of train cohen-0.25, certify cohen-0.25 ours: add --only 'train cohen-0.25' --only 'certify "
        "cohen-0.25 ours'" in said
    )


def test_what_is_printed_to_be_pasted_holds_names_in_quotes(cli, tmp_path):
    evil = SMALL.replace("max = 2", 'model-id = "net\\u001b["\nids = "/; touch PWNED #/"')
    (tmp_path / "small.toml").write_text(evil)
    command = ("reproduce", tmp_path / "small.toml", "--out", tmp_path / "work", "--only", "* average")
    assert r"--model-id $'net\x1b[' --ids '/; touch PWNED #/'" in cli(*command, "--dry-run").out
    assert "--only 'train cohen-0.25'" in cli(*command, code=1).out


@pytest.mark.parametrize("name", [file.stem for file in sorted(EXPERIMENTS.glob("*.toml"))])
def test_every_option_of_the_experiments_is_one(cli, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "efficientnet-lite0-57934424.pth").touch()  # of imagenet.toml; nothing is loaded
    said = cli("reproduce", EXPERIMENTS / f"{name}.toml", "--out", tmp_path / "work", "--dry-run").out
    assert said.count("anisocert certify") >= 3
