"""Noise on a grid and plain float32 noise, as a run records and verifies them."""

import json
import shlex
from pathlib import Path

import pytest

from anisocert.engine.grid import GRID

HERE = Path(__file__).parent / "rows"
SAME = "--data digits --precision float32 --skip 30 --max 6 --n 500 --device cpu --quiet --method fixed --sigma 0.25"


@pytest.fixture
def certified(cli, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(HERE)

    def run(*options: object) -> Path:
        cli("certify", "class_means:network", *shlex.split(SAME), *options, "--out", tmp_path / "run")
        return tmp_path / "run"

    return run


def recounted(cli, run, **how):
    return cli("verify", run, "--recount", 2, "--model", "class_means:network", **how).out


def test_a_run_on_a_grid_records_and_verifies_it(cli, certified):
    run = certified()
    assert json.loads((run / "run.json").read_text())["numerics"]["grid"] == GRID
    assert "votes of 2 drawn again" in recounted(cli, run)


@pytest.mark.parametrize("shape", ["flat", [1, "8"]])
def test_a_shape_that_is_none_is_a_finding(cli, certified, shape, forge):
    run = certified()
    forge(run, input_shape=shape)
    assert "run.json" in cli("verify", run, code=1).out


def test_no_votes_are_drawn_again_for_a_shape_without_end(cli, certified, forge):
    run = certified()
    forge(run, input_shape=[10**400])
    said = cli("verify", run, "--recount", 2, "--model", "class_means:network", code=2)
    assert "expected input_shape, the shape of an input" in said.err


def test_a_run_from_before_there_were_grids_verifies_and_recounts(cli, certified, forge):
    run = certified("--grid", 0)
    numerics = json.loads((run / "run.json").read_text())["numerics"]
    assert numerics.pop("grid") == 0
    forge(run, numerics=numerics)
    assert "nothing wrong" in recounted(cli, run)


def test_votes_of_one_noise_do_not_pass_for_the_other(cli, certified, forge):
    run = certified("--grid", 0)
    forge(run, numerics=json.loads((run / "run.json").read_text())["numerics"] | {"grid": GRID})
    said = cli("verify", run, "--recount", 2, "--model", "class_means:network", code=1)
    assert "nothing wrong" not in said.out


def test_the_grid_is_named_in_the_model_hash_and_an_error_names_its_option(cli, certified, tmp_path):
    run = certified()
    said = cli("certify", "class_means:network", *shlex.split(SAME), "--grid", 2.0**-10, "--out", run, code=2)
    assert "numerics.grid: 0.000244140625 -> 0.0009765625" in said.err
    wrong = cli("certify", "class_means:network", *shlex.split(SAME), "--grid", 0.1, "--out", tmp_path / "b", code=2)
    assert "expected grid a power of two" in wrong.err
