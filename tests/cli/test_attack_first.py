"""`anisocert attack --first`, as a user calls it."""

import json
from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert import models
from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.evaluate import ADMITTED, EVERYONE, OWN
from anisocert.runs import read_run
from anisocert.runs.files import ATTACKED
from anisocert.work import add_to_memory

QUICK = ("--n", 500, "--starts", 2, "--steps", 5, "--samples", 8, "--radius", 0.6, "--radius", 0.2)


@pytest.fixture
def run(trained_digits, write_run, tmp_path):
    """Makes a run on a few digits. factor: how much larger than certified its regions claim to be."""

    def make(method=None, factor=1.0, memory=False, most=6):
        numerics = Numerics("float32", False, 800)
        network = ac.Network(models.load(trained_digits)[0], 10, numerics=numerics)
        some, plan = digits("test").subset(most=most), ac.Plan(n0=200, n=2000)
        ids = some.ids.tolist()
        found = ac.certify(network, some.x, ids=ids, smoothing=ac.Gaussian(0.25), method=method, plan=plan)
        found = [
            c if c.region is None else replace(c, gap=factor * c.gap, region=c.region.scaled(factor)) for c in found
        ]
        said = {"model": str(trained_digits), "n0": plan.n0, "n": plan.n, "numerics": numerics, "num_classes": 10}
        write_run(tmp_path / "run", found, some.y, **said)
        if memory:
            with ac.Memory.open(tmp_path / "memory.sqlite") as opened:
                add_to_memory(tmp_path / "run", opened, dict(zip(ids, some.x, strict=True)))
        return tmp_path / "run"

    return make


def test_fixed_noise_withstands_what_it_certifies(cli, run):
    folder = run()
    said = cli("attack", folder, "--first", *QUICK).out
    table = said.splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["0", "0.2", "0.6"]
    assert f"{EVERYONE}, %" in said
    assert "% are certified for everyone; a stranger who comes first leaves" in said
    assert "One classifier answers all inputs: another class inside a region is an error" in said
    assert "; none happened." in said
    kept = read_run(folder).attacked
    assert (kept.radii.tolist(), kept.n, kept.starts, kept.steps, kept.samples) == ([0.0, 0.2, 0.6], 500, 2, 5, 8)
    assert len(kept) == 6
    assert cli("verify", folder).out.startswith(f"{folder}: nothing wrong")


def test_everything_as_json_and_the_points(cli, run, tmp_path):
    folder = run()
    found = json.loads(cli("attack", folder, "--first", *QUICK, "--json", "--out", tmp_path / "points.npz").out)
    stored, kept, points = read_run(folder), read_run(folder).attacked, np.load(tmp_path / "points.npz")
    assert (found["attacked"], found["protects"], found["failed"]) == (6, EVERYONE, False)
    assert found["expected"] > 0.012
    assert [one["answers"] for one in found["results"]] == kept.answers.tolist() == points["answers"].tolist()
    for j, ball in enumerate(found["balls"]):
        certified = (stored.column("radius") >= ball["radius"]) & stored.column("correct")
        assert (ball["right"], ball["certified"]) == (kept.right(j), certified.sum())
        assert (ball["otherwise"], ball["abstained"]) == (kept.otherwise(j, certified), kept.abstained(j, certified))
        low, high = ball["interval"]
        assert 0 <= low <= ball["right"] / 6 <= high <= 1
        assert (low, high) == pytest.approx(
            (ac.bounds.lower(ball["right"], 6, 0.025), ac.bounds.upper(ball["right"], 6, 0.025))
        )
        assert ball["otherwise_at_most"] == pytest.approx(ac.bounds.upper(0, certified.sum(), 0.05))
    assert found["regions"]["certified"] == kept.has_region.sum()
    x = digits("test").subset(most=6).x
    assert (np.linalg.norm((points["points"] - x).reshape(6, -1).astype(np.float64), axis=1) <= 0.6).all()


def test_regions_that_claim_too_much_make_the_exit_code_1(cli, run):
    said = cli("attack", run(factor=4.0), "--first", *QUICK, code=1).out
    assert "which is more than errors explain: something is wrong." in said


def test_noise_chosen_per_input_is_a_measurement(cli, run):
    """The same, where nobody claims that one classifier answers."""
    folder = run(ac.Isotropic(), factor=4.0, most=2)
    said = cli("attack", folder, "--first", *QUICK, "--max", 1, "--no-save").out
    assert f"certified, {OWN}; a stranger who comes first" in said
    assert "no certificate is contradicted. What was found is a measurement of this attack" in said
    assert not (folder / ATTACKED).exists()


def test_a_run_through_a_memory(cli, run):
    folder = run(ac.Isotropic(), memory=True, most=2)
    said = cli("attack", folder, "--first", *QUICK, "--ids", "0").out
    assert f"{ADMITTED}; a stranger who comes first leaves" in said
    assert "The promise begins with the admission of the clean input, and the memory was empty: none is broken." in said
    assert read_run(folder).attacked.ids.tolist() == [0]


def test_mistakes(cli, run, tmp_path):
    folder = run(memory=True, most=1)
    memory = tmp_path / "memory.sqlite"
    assert "expected --first without --memory" in cli("attack", folder, "--first", "--memory", memory, code=2).err
    for option in (("--radius", 0.5), ("--no-save",)):
        assert "with --first, got one without it" in cli("attack", folder, *option, code=2).err
    for radius in ("-1", "nan", "inf"):
        said = cli("attack", folder, "--first", "--radius", radius, code=2).err
        assert "expected each radius finite and at least 0" in said
    (folder / ATTACKED).symlink_to(tmp_path / "elsewhere")
    assert "expected a regular file, or nothing" in cli("attack", folder, "--first", *QUICK, "--max", 1, code=2).err
    assert not (tmp_path / "elsewhere").exists()
