import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from anisocert import Gaussian, Numerics, Plan, Uniform, predict
from anisocert.data import digits
from anisocert.errors import AnisocertWarning
from anisocert.models import load, save


def expected(net, smoothing, data, n, seed=0):
    numerics = Numerics("float32", False)
    model = load(net)[0]
    found = predict(
        model, data.x, ids=data.ids.tolist(), smoothing=smoothing, plan=Plan(n=n), seed=seed, numerics=numerics
    )
    return list(zip(data.ids.tolist(), data.y.tolist(), found.tolist(), strict=True))


def read(text):
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["id", "label", "answer"]
    return [tuple(map(int, row)) for row in rows]


def test_answers_are_those_of_the_library(cli, trained_digits, tmp_path):
    data = digits("test").subset(skip=2, most=70)  # more than go into one call
    known = expected(trained_digits, Gaussian(0.25), data, 40, seed=5)
    arguments = (trained_digits, "--data", "digits", "--sigma", 0.25, "--n", 40, "--skip", 2, "--max", 70, "--seed", 5)
    said = cli("predict", *arguments, "--precision", "float32", "--no-compile", "--format", "csv")
    assert read(said.out) == known
    assert -1 in {answer for _, _, answer in known}
    assert len({answer for _, _, answer in known}) > 2
    right = np.mean([label == answer for _, label, answer in known])
    away = np.mean([answer == -1 for _, _, answer in known])
    told = f"70 examples of digits: {right:.2%} answered correctly, {away:.2%} abstained\n"
    assert said.err == told
    said = cli("predict", *arguments, "--precision", "float32", "--out", tmp_path / "a.json")
    assert said.out == told
    stored = json.loads((tmp_path / "a.json").read_text())
    assert [tuple(one.values()) for one in stored["answers"]] == known
    assert (stored["accuracy"], stored["abstention"], stored["inputs"]) == (right, away, 70)
    assert stored["numerics"]["precision"] == "float32"
    cli("predict", *arguments, "--precision", "float32", "--out", tmp_path / "a.csv")
    assert read((tmp_path / "a.csv").read_text()) == known


def test_answers_to_image_files_name_them_in_every_format(cli, trained_digits, tmp_path):
    for name in ("cat, tame", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "images" / name / "1.png")
    known = ["cat, tame/1.png", "dog/1.png"]
    arguments = (trained_digits, "--data", tmp_path / "images", "--sigma", 0.25, "--n", 20, "--format")
    header, *rows = csv.reader(io.StringIO(cli("predict", *arguments, "csv").out))
    assert header == ["id", "label", "answer", "file"]
    assert sorted(row[3] for row in rows) == known
    answers = json.loads(cli("predict", *arguments, "json").out)["answers"]
    assert [list(map(str, answer.values())) for answer in answers] == rows


def test_it_warns_of_noise_the_network_does_not_know(cli, trained_digits, tmp_path):
    model, said = load(trained_digits)
    save(model, tmp_path / "net.safetensors", said | {"norm": "l2", "sigma": 0.25})
    with pytest.warns(AnisocertWarning, match=r"trained with noise of sigma 0\.25, got 1"):
        cli("predict", tmp_path / "net.safetensors", "--data", "digits", "--sigma", 1, "--n", 20, "--max", 1)


@pytest.mark.precision
def test_table_ids_and_uniform_noise(cli, trained_digits):
    data = digits("test").subset(ids=[0, 5, 10])
    known = expected(trained_digits, Uniform(0.3), data, 30)
    noise = ("--norm", "l1", "--sigma", 0.3)
    out = cli("predict", trained_digits, "--data", "digits", *noise, "--n", 30, "--ids", "0,5,10").out
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["id", "label", "answer"]
    shown = [[*map(str, row[:2]), "abstains" if row[2] == -1 else str(row[2])] for row in known]
    assert rows[1:4] == shown
    assert out.splitlines()[-1].startswith("3 examples of digits: ")


@pytest.mark.precision
def test_options_from_a_file(cli, trained_digits, tmp_path):
    said = f'model = "{trained_digits}"\ndata = "digits"\nsigma = 0.5\nmax = 3\n[predict]\nn = 20\n'
    (tmp_path / "p.toml").write_text(said)
    assert len(read(cli("predict", "--config", tmp_path / "p.toml", "--format", "csv").out)) == 3
    assert len(read(cli("predict", "--config", tmp_path / "p.toml", "--format", "csv", "--max", 2).out)) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--alpha", "2"), "expected alpha in (0, 1), got 2.0"),
        (("--norm", "l0"), "expected norm to be one of l2, l1, got 'l0'"),
        (("--max", "0"), "expected max >= 1, got 0"),
        (("--format", "xml"), "expected --format csv or json"),
        (("--out", "answers.txt"), "expected --format csv or json"),
        (("--ids", "7000"), "not in it"),
        (("--precision", "float8"), "precision"),
        (("--device", "abacus"), "abacus"),
        (("--data", "nothing"), "nothing"),
        (("--mean", "a,b"), "expected --mean as numbers"),
    ],
)
def test_wrong_values(cli, trained_digits, arguments, words):
    said = cli("predict", trained_digits, "--data", "digits", "--sigma", 0.5, "--n", 20, *arguments, code=2)
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) == 1
    assert words in said.err
    assert said.out == ""


def test_a_network_that_is_not_there(cli, tmp_path):
    assert "expected a network file" in cli(
        "predict", tmp_path / "no.safetensors", "--data", "digits", "--sigma", 0.5, code=2
    ).err  # fmt: skip
