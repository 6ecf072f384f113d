"""Noise on a grid and plain float32 noise, as a run records and verifies them."""

import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from anisocert.engine.grid import GRID, grain
from anisocert.runs.files import checksum, write_description
from anisocert.runs.stored import read_run

HERE = Path(__file__).parent / "rows"
SAME = "--data digits --precision float32 --skip 30 --max 6 --n 500 --device cpu --quiet --method fixed --sigma 0.25"


@pytest.fixture
def certified(cli, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(HERE)

    def run(*options: object) -> Path:
        cli("certify", "class_means:network", *shlex.split(SAME), *options, "--out", tmp_path / "run")
        return tmp_path / "run"

    return run


def rewrite(run, table=None, **described):
    """Change what a run says and make the checksums fit."""
    said = json.loads((run / "run.json").read_text()) | described
    if table is not None:
        pq.write_table(table, run / "certificates.parquet")
    write_description(run, said | {"files": {name: checksum(run / name) for name in said["files"]}})


def recounted(cli, run, **how):
    return cli("verify", run, "--recount", 2, "--model", "class_means:network", **how).out


def test_a_run_on_a_grid_records_and_verifies_it(cli, certified):
    run = certified()
    assert json.loads((run / "run.json").read_text())["numerics"]["grid"] == GRID
    theta = next(iter(read_run(run).thetas.values()))
    expected = grain(theta[None], (1, 8, 8), 500, GRID, "normal")
    assert [row["grain"] for row in read_run(run).rows] == [pytest.approx(expected, rel=1e-12)] * 6
    assert "votes of 2 drawn again" in recounted(cli, run)
    table = pq.read_table(run / "certificates.parquet")
    less = [value.as_py() * 0.999 for value in table["grain"]]
    rewrite(run, table.set_column(table.column_names.index("grain"), "grain", [less]))
    assert "grain is" in cli("verify", run, code=1).out


def test_the_grain_of_a_mixture_is_that_of_its_widest_component(cli, certified):
    run = certified("--noise", "gaussian-mixture", "--components", "0.3:0.8,0.7:1.6")
    table, theta = pq.read_table(run / "certificates.parquet"), next(iter(read_run(run).thetas.values()))
    widest, own = (grain(one, (1, 8, 8), 500, GRID, "normal") for one in (np.float32([[0.4]]), theta[None]))
    assert table["grain"].to_pylist() == [pytest.approx(widest, rel=1e-6)] * 6
    assert own < 0.9 * widest
    rewrite(run, table.set_column(table.column_names.index("grain"), "grain", [[own] * 6]))
    assert "grain is" in cli("verify", run, code=1).out


@pytest.mark.parametrize("shape", ["flat", [1, "8"], [10**400]])
def test_a_shape_that_is_none_is_a_finding(cli, certified, shape):
    run = certified()
    rewrite(run, input_shape=shape)
    assert "run.json" in cli("verify", run, code=1).out or "input_shape" in cli("verify", run, code=1).out


def test_a_run_from_before_there_were_grids_verifies_and_recounts(cli, certified):
    run = certified("--grid", 0)
    assert {row["grain"] for row in read_run(run).rows} == {0.0}
    numerics = json.loads((run / "run.json").read_text())["numerics"]
    assert numerics.pop("grid") == 0
    rewrite(run, pq.read_table(run / "certificates.parquet").drop_columns(["grain"]), numerics=numerics)
    assert "nothing wrong" in recounted(cli, run)


def test_votes_of_one_noise_do_not_pass_for_the_other(cli, certified):
    run = certified("--grid", 0)
    rewrite(run, numerics=json.loads((run / "run.json").read_text())["numerics"] | {"grid": GRID})
    cli("verify", run, "--recount", 2, "--model", "class_means:network", code=1)


def test_the_grid_is_named_in_the_model_hash_and_an_error_names_its_option(cli, certified, tmp_path):
    run = certified()
    said = cli("certify", "class_means:network", *shlex.split(SAME), "--grid", 2.0**-10, "--out", run, code=2)
    assert "numerics.grid: 0.000244140625 -> 0.0009765625" in said.err
    wrong = cli("certify", "class_means:network", *shlex.split(SAME), "--grid", 0.1, "--out", tmp_path / "b", code=2)
    assert "expected grid a power of two" in wrong.err
