"""`anisocert diagnose`, as a user calls it."""

import json
import shlex
from dataclasses import replace

import pytest

from anisocert import diagnosis
from anisocert.diagnosis import Remedy, diagnose

QUICK = ("--max", 8, "--votes", 10)


def test_table_words_picture_and_command(cli, trained_digits, tmp_path):
    picture = tmp_path / "new" / "diagnosis.png"
    said = cli("diagnose", trained_digits, "--data", "digits", *QUICK, "--figure", picture).out
    lines = said.splitlines()
    assert "8 inputs of digits, 10 noisy copies each" in lines[0]
    assert sum(line.lstrip("> ").startswith(("l2 ", "l1 ")) for line in lines) == 24
    assert sum(line.startswith(" > ") for line in lines) == 1
    assert "Without noise it answers" in said
    assert "Recommended: noise" in said
    for method in ("fixed", "isotropic", "anisotropic"):
        assert f"- {method}: " in said
    assert f"anisocert certify {shlex.quote(str(trained_digits))} --out RUN --data digits" in said
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_commands_stand_in_one_piece_on_lines_of_their_own(cli, trained_digits, monkeypatch):
    commands = tuple(f"anisocert {name} {'--option value ' * 20}--out DENOISER" for name in ("train", "certify"))
    remedies = (Remedy("A denoiser", commands), Remedy("Or fine-tuning", ("anisocert train",)))
    monkeypatch.setattr(diagnosis, "diagnose", lambda *a, **k: replace(diagnose(*a, **k), remedies=remedies))
    said = cli("diagnose", trained_digits, "--data", "digits", *QUICK, "--sigma", "0.25", "--norm", "l2").out
    expected = ["", "A denoiser:", *commands, "", "Or fine-tuning:", "anisocert train"]
    *_, recommended = said.splitlines()[: -len(expected)]
    assert said.splitlines()[-len(expected) :] == expected
    assert recommended.startswith(f"anisocert certify {shlex.quote(str(trained_digits))} --out RUN ")


@pytest.mark.precision
def test_json_for_levels_of_ones_own(cli, trained_digits):
    said = cli("diagnose", trained_digits, "--data", "digits", *QUICK, "--sigma", "0.1,0.3", "--norm", "l1", "--json")
    found = json.loads(said.out)
    assert [(one["norm"], one["sigma"]) for one in found["levels"]] == [("l1", 0.1), ("l1", 0.3)]
    assert {"accuracy", "certified", "abstained", "mean_radius", "farthest"} <= found["levels"][0].keys()
    assert found["inputs"] == 8
    assert found["recommendation"]["norm"] == "l1"
    assert [cost["method"] for cost in found["costs"]] == ["fixed", "isotropic", "anisotropic"]
    assert found["findings"]


def test_a_grid_and_rows_of_ones_own_go_into_the_recommended_command(cli, trained_digits):
    arguments = ("diagnose", trained_digits, "--data", "digits", *QUICK, "--sigma", "0.25", "--norm", "l2", "--json")
    fine, coarse = (json.loads(cli(*arguments, *grid).out) for grid in ((), ("--grid", "4", "--rows", "160")))
    assert "--grid" not in fine["recommendation"]["command"]
    assert fine["levels"][0]["accuracy"] > 0.5
    assert coarse["levels"][0]["largest_class"] == 1.0, "all inputs have been rounded to the same one"
    useful = json.loads(cli(*arguments, "--grid", "0.0078125", "--rows", "160").out)["recommendation"]["command"]
    assert "--grid 0.0078125" in useful
    assert "--rows 160" in useful


def test_with_a_denoiser(cli, trained_digits, tmp_path, monkeypatch):
    (tmp_path / "users_blank.py").write_text(
        "from torch import nn\nclass Blank(nn.Module):\n    def forward(self, x): return 0 * x\n"
        "def blank(): return Blank()\ndef same(): return nn.Identity()\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ("diagnose", trained_digits, "--data", "digits", *QUICK, "--sigma", "0.1", "--norm", "l2", "--json")
    blank = json.loads(cli(*arguments, "--denoise", "users_blank:blank").out)
    assert blank["levels"][0]["largest_class"] == 1.0  # all inputs have become the same
    assert json.loads(cli(*arguments).out)["levels"][0]["largest_class"] < 0.5
    assert (blank["recommendation"]["useful"], blank["recommendation"]["command"], blank["costs"]) == (False, "", [])
    assert [line for line in blank["findings"] if "its answer does not depend on the input" in line] == blank[
        "findings"
    ]
    same = json.loads(cli(*arguments, "--denoise", "users_blank:same").out)
    assert "--denoise users_blank:same" in same["recommendation"]["command"]


def test_wrong_options(cli, trained_digits):
    assert (
        "expected --norm l2, l1 or both"
        in cli("diagnose", trained_digits, "--data", "digits", "--norm", "l3", code=2).err
    )
    assert "expected --sigma above 0" in cli("diagnose", trained_digits, "--data", "digits", "--sigma", "0", code=2).err
