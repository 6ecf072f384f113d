"""Data without labels: everything but accuracy. Image files by their names."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from anisocert.data import digits, load
from anisocert.evaluate import NO_LABELS, results_of
from anisocert.runs import read_run

QUICK = ("--sigma", 0.25, "--method", "fixed", "--n", 200, "--max", 6, "--rows", 160, "--no-compile")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same digits with and without labels, and as images."""
    folder, data = tmp_path_factory.mktemp("data"), digits("test").subset(most=12)
    np.savez(folder / "known.npz", x=data.x, y=data.y)
    np.savez(folder / "unknown.npz", x=data.x)
    for number, (x, y) in enumerate(zip(data.x, data.y, strict=True)):
        (folder / "images" / f"digit-{y}").mkdir(parents=True, exist_ok=True)
        Image.fromarray((x[0] * 255).astype(np.uint8)).save(folder / "images" / f"digit-{y}" / f"scan{number}.png")
    return folder


def test_everything_but_accuracy(cli, trained_digits, files, tmp_path):
    for name in ("known", "unknown"):
        said = cli("certify", trained_digits, "--data", files / f"{name}.npz", *QUICK, "--out", tmp_path / name)
        assert ("answered" in said.out, "as the inputs have no labels" in said.out) == ((name == "unknown"),) * 2
    known, unknown = (read_run(tmp_path / name) for name in ("known", "unknown"))
    for column in ("prediction", "radius", "votes", "top_votes"):
        assert (known.column(column) == unknown.column(column)).all()
    assert set(unknown.column("label")) == {-1}
    assert not unknown.column("correct").any()
    assert not results_of(unknown).labelled
    assert (results_of(unknown).correct == (unknown.column("prediction") >= 0)).all()
    assert cli("verify", tmp_path / "unknown", "--recount", 2).out.startswith(f"{tmp_path / 'unknown'}: nothing wrong")
    cli("report", tmp_path / "unknown", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert NO_LABELS in page
    assert "answered (correctly or not), and the smoothed classifier gives the same answer" in page
    assert "answered correctly" not in page.partition("<dt>")[0]  # but for the glossary
    assert "Certified share" in page
    assert NO_LABELS in cli("report", tmp_path / "unknown", "--table", "markdown").out
    assert "it has no label" in cli("show", tmp_path / "unknown", 0, "--out", tmp_path / "input.html").out
    assert "it has no label" in (tmp_path / "input.html").read_text()
    json_summary = json.loads(
        cli(
            "certify", trained_digits, "--data", files / "unknown.npz", *QUICK, "--json", "--out", tmp_path / "unknown"
        ).out
    )["summary"]["certified"]
    assert "accuracy" not in json_summary
    assert json_summary["answered"] > 0


def test_an_abstention_about_an_unlabelled_input_is_not_correct(cli, trained_digits, files, tmp_path):
    hopeless = (*QUICK, "--n", 6, "--alpha", 0.01)
    with pytest.warns(match="will abstain"):
        cli("certify", trained_digits, "--data", files / "unknown.npz", *hopeless, "--out", tmp_path)
    run = read_run(tmp_path)
    assert set(run.column("prediction")) == {-1}
    assert not run.column("correct").any()
    assert not results_of(run).correct.any()


def test_what_needs_labels_says_so(cli, trained_digits, files, tmp_path):
    unknown = ("--data", files / "unknown.npz")
    said = cli("train", *unknown, "--sigma", 0.25, "--epochs", 1, "--out", tmp_path / "net", code=2).err
    assert "expected labels to train on in unknown, got none" in said
    assert "expected labels, to tell right answers" in cli("diagnose", trained_digits, *unknown, code=2).err
    said = cli("predict", trained_digits, *unknown, "--sigma", 0.25, "--n", 100, "--max", 3).out
    assert "correctly" not in said
    assert "3 examples of" in said
    assert "unknown, as there are no labels" in cli("data", "info", files / "unknown.npz").out


def test_images_by_their_names(cli, trained_digits, files, tmp_path):
    images = files / "images"
    said = cli("predict", trained_digits, "--data", images, "--sigma", 0.25, "--n", 100, "--max", 3).out
    assert re.search(r"^ digit-\d/scan\d+\.png ", said, re.M)
    cli("certify", trained_digits, "--data", images, *QUICK, "--out", tmp_path / "run")
    names = load(images).names
    assert names == tuple(sorted(names))
    chosen = dict(zip(load(images).names, load(images).ids.tolist(), strict=True))
    name = next(name for name, number in chosen.items() if number in read_run(tmp_path / "run").column("idx"))
    said = cli("show", tmp_path / "run", name).out
    assert said.startswith(f"Input {chosen[name]} ({name}) of images: ")
    assert said == cli("show", tmp_path / "run", chosen[name]).out
    assert "or the name of its file, as in digit-" in cli("show", tmp_path / "run", "no/such.png", code=2).err
    cli("report", tmp_path / "run", "--out", tmp_path / "report.html")
    assert f"Its file is {name}." in (tmp_path / "report.html").read_text()
    assert f"{names[0]} (id {chosen[names[0]]})" in cli("data", "info", images).out
