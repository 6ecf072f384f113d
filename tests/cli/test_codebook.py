"""From noise levels to a system that chooses among them."""

import numpy as np
import pytest

from anisocert.data import digits
from anisocert.models import Codebook, load
from anisocert.runs import read_run
from anisocert.verify import verify


def test_a_codebook_a_classifier_and_a_selector_make_a_run(cli, tmp_path):
    some = digits("train").subset(most=60)
    np.savez(tmp_path / "some.npz", x=some.x, y=some.y)
    data = ("--data", tmp_path / "some.npz")
    codes, quick = tmp_path / "codes.safetensors", (*data, "--arch", "small-cnn", "--epochs", 2)
    assert "3 codes" in cli("codebook", "--scalars", "0.125,0.25,0.5", "--sigma", 0.25, "--out", codes).out
    cli("train", *quick, "--codebook", codes, "--out", tmp_path / "net")
    _, said = load(tmp_path / "net" / "last.safetensors")
    assert said["noise"] == "gaussian-mixture"
    chosen = ("--recipe", "selector", "--codebook", codes, "--classifier", tmp_path / "net" / "last.safetensors")
    told = cli("train", *quick, *chosen, "--out", tmp_path / "selector").out
    assert "best code of the training examples: 0: " in told
    _, said = load(tmp_path / "selector" / "last.safetensors")
    assert (said["num_classes"], said["sigma"], said["recipe"]["name"]) == (3, 0.25, "selector")
    for method in ("selected", "two-step"):
        cli(
            "certify", tmp_path / "net" / "last.safetensors", *data, "--method", method, "--codebook",
            codes, "--selector", tmp_path / "selector" / "last.safetensors", "--n", 100, "--max", 3, "--out",
            tmp_path / method, "--quiet",
        )  # fmt: skip
        assert verify(tmp_path / method).ok


def test_shapes_are_those_of_a_run(cli, tmp_path, whole):
    out = tmp_path / "codes.safetensors"
    cli("codebook", "--of", whole, "--shapes", 1, "--scalars", "0.5", "--sigma", 0.25, "--out", out)
    theta = next(iter(read_run(whole).thetas.values()))
    np.testing.assert_allclose(Codebook.load(out).codes, [0.5, float(theta)])
    told = cli("codebook", "--of", whole, "--shapes", 2, "--sigma", 0.25, "--out", out, code=2)
    assert "expected 1 to 1 shapes" in told.err


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (("codebook", "--sigma", 0.5, "--out", "x.safetensors"), "expected --scalars or --of"),
        (("train", "--data", "digits", "--out", "x"), "expected one of --sigma and --codebook, got none"),
        (("train", "--data", "digits", "--out", "x", "--recipe", "selector"), "expected --classifier, a network"),
        (
            ("train", "--data", "digits", "--out", "x", "--recipe", "selector", "--classifier", "x"),
            "expected --codebook with --recipe selector, got none",
        ),
    ],
)
def test_mistakes_are_named(cli, arguments, wrong):
    assert wrong in cli(*arguments, code=2).err


def test_what_a_code_is_worth_is_checked_before_the_data_is_read(cli, tmp_path):
    Codebook([0.5, 0.25], 0.5).save(tmp_path / "codes.safetensors")
    given = ("--codebook", tmp_path / "codes.safetensors", "--classifier", "absent", "--worth", "banana")
    told = cli("train", "--data", "absent.npz", "--out", tmp_path, "--recipe", "selector", *given, code=2)
    assert "expected worth (--worth) radius or volume, got 'banana'" in told.err
