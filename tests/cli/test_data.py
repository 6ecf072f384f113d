from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from anisocert.cli.app import app
from anisocert.data import cache
from anisocert.errors import ArgumentError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["data", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("list")
    for name in ("digits", "mnist", "fashion-mnist", "cifar10", "imagenet", str(tmp_path)):
        assert name in shown
    assert "no: anisocert data fetch cifar10" in shown
    assert "no: anisocert data prepare imagenet FOLDER" in shown


def test_info_and_subsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("info", "digits", "--skip", "10", "--max", "20")
    assert "examples 1,437 20 " in shown
    assert "ids 1 to 1796 0 to 950 " in shown
    np.savez(tmp_path / "mine.npz", x=np.zeros((6, 4, 4), np.uint8), y=np.arange(6) % 3)
    shown = run("info", str(tmp_path / "mine.npz"), "--ids", "1,3-4")
    assert "examples 3 ids 1 to 4 shape 1 x 4 x 4 classes 3, with 0 to 2 examples" in shown
    assert "assumed" not in shown
    np.savez(tmp_path / "test.npz", x_test=np.zeros((6, 4, 4), np.float32))
    assert "(train's)" not in run("info", str(tmp_path / "test.npz"))
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        Image.new("L", (4, 4)).save(tmp_path / "pets" / name / "0.png")
    assert "mean 0.5 (assumed, not measured) std 0.25 (assumed, not measured)" in run("info", str(tmp_path / "pets"))


def test_fetch() -> None:
    assert (
        run("fetch", "digits").strip() == "digits is already here"
    )  # with scikit-learn, not in the folder of data sets
    with pytest.raises(ArgumentError, match="expected a data set to be one of digits"):
        run("fetch", "svhn")
