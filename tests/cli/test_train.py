import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from anisocert.cli.app import app
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.models import load
from anisocert.train import RECIPES

DIGITS = ("--data", "digits", "--arch", "small-cnn", "--sigma", "0.25", "--seed", "0")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["train", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.precision
def test_as_scripts_call_it(tmp_path: Path) -> None:
    tmp_path /= "a name with spaces"
    shown = run(*DIGITS, "--recipe", "cohen", "--epochs", "3", "--out", tmp_path)
    next_command = shlex.split(shown.splitlines()[-1])
    assert next_command[:4] == ["anisocert", "certify", str(tmp_path / "last.safetensors"), "--data"]
    assert "epoch 3/3" in shown
    assert "noisy test accuracy: best" in shown
    assert "trained on" not in shown
    files = sorted(tmp_path.glob("*.safetensors"))
    assert [path.name for path in files] == ["best.safetensors", "last.safetensors"]
    for path in files:
        _, metadata = load(path, num_classes=10)
        assert (metadata["sigma"], metadata["recipe"], metadata["architecture"]) == (
            0.25,
            {"name": "cohen"},
            "small-cnn",
        )
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["test_accuracy"] > 0.3


@pytest.mark.precision
def test_an_architecture_by_the_size_of_the_inputs(tmp_path: Path) -> None:
    shown = run("--data", "digits", "--sigma", "0.25", "--epochs", "1", "--out", tmp_path)
    assert "--arch small-cnn, for inputs of 1 x 8 x 8" in shown
    assert load(tmp_path / "last.safetensors")[1]["architecture"] == "small-cnn"
    run(*DIGITS, "--epochs", "1", "--out", tmp_path)  # the same training


@pytest.mark.precision
def test_recipes_take_their_options(tmp_path: Path) -> None:
    changes = ("--set", "epsilon=0.5", "--set", "steps=2", "--recipe", "smoothadv", "--epochs", "1")
    run(*DIGITS, *changes, "--schedule", "cosine", "--batch-size", 200, "--lr", 0.02, "--out", tmp_path)
    metadata = load(tmp_path / "last.safetensors")[1]
    assert (metadata["recipe"]["epsilon"], metadata["recipe"]["steps"], metadata["recipe"]["copies"]) == (0.5, 2, 1)
    assert (metadata["sgd"]["schedule"], metadata["sgd"]["batch_size"], metadata["sgd"]["learning_rate"]) == (
        "cosine", 200, 0.02,
    )  # fmt: skip


@pytest.mark.precision
def test_uniform_noise_on_a_file_with_one_set(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.integers(0, 256, (40, 8, 8, 3), np.uint8), y=np.arange(40) % 2)
    mine = ("--data", tmp_path / "mine.npz", "--arch", "small-cnn", "--epochs", 2, "--sigma", 0.3, "--norm", "l1")
    shown = run(*mine, "--recipe", "stability", "--flip", "--crop", 1, "--out", tmp_path / "net")
    assert "accuracy was not measured" in shown
    assert "trained on, and accuracy on them says nothing about others: certify others" in " ".join(shown.split())
    metadata = load(tmp_path / "net" / "best.safetensors", num_classes=2)[1]
    assert (metadata["noise"], metadata["norm"], metadata["sigma"]) == ("uniform", "l1", 0.3)
    assert (metadata["crop"], metadata["flip"], len(metadata["mean"])) == (1, True, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--recipe", "trades"), f"expected --recipe to be one of {', '.join(RECIPES)}, got 'trades'"),
        (("--recipe", "macer", "--norm", "l1"), "expected normal noise with recipe macer, got Uniform"),
        (("--norm", "linf"), "expected norm to be one of l2, l1, got 'linf'"),
        (("--set", "epsilon=1"), "expected --set of nothing with cohen, got 'epsilon=1'"),
        (("--recipe", "macer", "--set", "copies=many"), "expected --set copies as int, got 'many'"),
        (("--schedule", "flat"), "expected schedule to be one of one-cycle, cosine, step, got 'flat'"),
        (("--epochs", "0"), "expected epochs >= 1"),
        (("--precision", "float8"), "expected precision 'float32' or 'bfloat16', got 'float8'"),
        (("--arch", "vgg"), "expected architecture to be one of"),
        (("--sigma", "-1"), "expected sigma positive"),
        (("--worth", "banana"), "expected --worth with --recipe selector and with no other, got 'banana'"),
        (("--levels", "1,2"), "expected --levels with --recipe denoiser and with no other, got '1,2'"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(*DIGITS, *arguments, "--out", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_classes_without_an_example_are_told(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((20, 1, 8, 8), np.float32)
    np.savez(tmp_path / "from1.npz", x=x, y=np.arange(20) % 2 + 1)
    asked = ("--arch", "small-cnn", "--epochs", 1, "--sigma", 0.3, "--crop", 0, "--out", tmp_path / "net")
    told = " ".join(run("--data", tmp_path / "from1.npz", *asked).split())
    assert "note: no training example has class 0, of 3: do labels start at 1?" in told
    np.savez(tmp_path / "all.npz", x=x, y=np.arange(20) % 2)
    assert "no training example" not in run("--data", tmp_path / "all.npz", *asked, "--force")


def test_a_best_network_that_was_removed_is_not_said_to_be_there(tmp_path: Path) -> None:
    command = (*DIGITS, "--epochs", 1, "--out", tmp_path)
    assert "best.safetensors, last.safetensors and log.jsonl are written" in run(*command)
    state = torch.load(tmp_path / "resume.state")
    torch.save(state | {"best": None}, tmp_path / "resume.state")  # as once a later epoch was written
    (tmp_path / "best.safetensors").unlink()
    with pytest.warns(AnisocertWarning, match=r"best\.safetensors, of epoch 1, is gone: it is written again only if"):
        shown = run(*command)
    assert f"{tmp_path}/last.safetensors and log.jsonl are written" in shown


def test_an_attack_stays_in_the_range_of_the_data(tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (20, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=np.arange(20) % 2)
    asked = ("--data", tmp_path / "mine.npz", "--arch", "small-cnn", "--epochs", 1, "--sigma", 0.3, "--recipe",
             "smoothadv", "--set", "steps=1", "--out", tmp_path / "net")  # fmt: skip
    with pytest.raises(
        ArgumentError, match=r"got -0\.99\d+ to 0\.99\d+ in mine: give their range, as in --set low=-1 --set high=1$"
    ):
        run(*asked)
    run(*asked, "--set", "low=-1", "--set", "high=1")


def test_the_folder_of_a_training_is_not_its_network(tmp_path: Path) -> None:
    run(*DIGITS, "--epochs", "1", "--out", tmp_path / "net")
    with pytest.raises(
        ArgumentError, match=r"folder .*net: name the file in it, best\.safetensors or last\.safetensors"
    ):
        load(tmp_path / "net")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArgumentError, match=r"got the folder .*empty$"):
        load(tmp_path / "empty")


def test_ctrl_c_says_that_it_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anisocert.train.train", interrupt)
    found = CliRunner().invoke(app, ["train", *map(str, DIGITS), "--epochs", "4", "--out", str(tmp_path)])
    assert (found.exit_code, "interrupted in epoch 1 of 4; the same command resumes" in found.stdout) == (3, True)


def test_an_interrupted_training_says_where_it_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = {2, 3}  # epochs that are kept, and not told of any more

    def line(record: dict[str, Any]) -> str:
        if record["epoch"] in stops:
            stops.remove(record["epoch"])
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr("anisocert.train._folder.EVERY", 0.0)  # seconds from one state to the next
    monkeypatch.setattr("anisocert.cli.train._line", line)
    asked = ["train", *map(str, DIGITS), "--epochs", "4", "--out", str(tmp_path)]
    said = [CliRunner().invoke(app, asked).stdout for _ in range(3)]
    assert ["resuming after epoch" in one for one in said] == [False, True, True]
    assert "interrupted in epoch 2 of 4; the same command resumes" in said[0]
    assert "resuming after epoch 2 of 4" in said[1]
    assert "interrupted in epoch 3 of 4; the same command resumes" in said[1]
    assert "resuming after epoch 3 of 4" in said[2]


def test_a_real_kill_and_the_same_command_again(tmp_path: Path) -> None:
    """SIGKILL in the middle of the work; the weights in the end are those of an undisturbed training, byte by byte."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "anisocert", "train", *DIGITS, "--epochs", "12", "--out", str(killed)]
    # the tests run on one thread, and another number of threads would sum in another order
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 300
    while not (killed / "resume.state").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (killed / "resume.state").exists()
    assert not (killed / "last.safetensors").exists(), "it was faster than the kill"
    for folder in (killed, whole):
        run(*DIGITS, "--epochs", 12, "--out", folder)
    for name in ("best.safetensors", "last.safetensors"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
