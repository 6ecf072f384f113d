"""`anisocert reproduce`: a small experiment, whole."""

import subprocess
import sys

from anisocert.evaluate import compare
from anisocert.runs import read_run

SMALL = """
data = "digits"
[train]
arch = "small-cnn"
epochs = 2
[certify]
n = 300
max = 4
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


def anisocert(*arguments):
    return subprocess.run([sys.executable, "-m", "anisocert", *arguments], capture_output=True, text=True)


def test_an_experiment_ends_in_runs_that_can_be_compared_without_their_thetas(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    command = ["reproduce", str(tmp_path / "small.toml"), "--out", str(tmp_path / "work")]
    shown = anisocert(*command, "--dry-run")
    assert shown.returncode == 0
    assert shown.stdout.count("anisocert certify") == 2
    assert not (tmp_path / "work").exists()
    made = anisocert(*command, "--results", str(tmp_path / "results"))
    assert made.returncode == 0, made.stdout + made.stderr
    assert "3 of 3 stages done" in made.stdout
    runs = [read_run(tmp_path / "results" / "cohen-0.25" / name) for name in ("ours", "average")]
    assert runs[0].has_memory
    (comparison,) = compare(runs)
    assert len(comparison) == 4
    assert {entry.before.method for entry in comparison.entries} == {"anisotropic", "average"}
    again = anisocert(*command)
    assert again.returncode == 0
    assert "started" not in again.stdout


def test_a_misspelt_option_is_found_before_anything_starts(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL.replace("epochs = 2", "epoch = 2"))
    found = anisocert("reproduce", str(tmp_path / "small.toml"), "--out", str(tmp_path / "work"))
    assert found.returncode == 1
    assert "--epoch is no option of anisocert train; did you mean --epochs?" in found.stderr
    (tmp_path / "small.toml").write_text(SMALL)
    found = anisocert("reproduce", str(tmp_path / "small.toml"), "--out", str(tmp_path / "work"), "--only", "*macer*")
    assert found.returncode == 1
    assert "'train cohen-0.25'" in found.stderr
    assert not (tmp_path / "work").exists()
