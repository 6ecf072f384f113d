"""`anisocert attack --first`, as a user calls it."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert import models
from anisocert.attack import UNFINISHED, FirstAttack, first
from anisocert.cli.attack_first import tell_first
from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.evaluate import ADMITTED, EVERYONE, OWN
from anisocert.runs import AttackedFirst, read_run, write_attacked
from anisocert.runs.files import ATTACKED
from anisocert.work import add_to_memory

QUICK = ("--n", 500, "--starts", 2, "--steps", 5, "--samples", 8, "--radius", 0.6, "--radius", 0.2)


@pytest.fixture
def run(trained_digits, write_run, tmp_path):
    """Makes a run on a few digits. factor: how much larger than certified its regions claim to be."""

    def make(method=None, factor=1.0, memory=False, most=6, **options):
        numerics = Numerics("float32", False, 800)
        network = ac.Network(models.load(trained_digits)[0], 10, numerics=numerics)
        some, plan = digits("test").subset(most=most), ac.Plan(n0=200, n=2000)
        ids = some.ids.tolist()
        found = ac.certify(network, some.x, ids=ids, smoothing=ac.Gaussian(0.25), method=method, plan=plan)
        found = [
            c if c.region is None else replace(c, gap=factor * c.gap, region=c.region.scaled(factor)) for c in found
        ]
        said = {"model": str(trained_digits), "n0": plan.n0, "n": plan.n, "numerics": numerics, "num_classes": 10}
        write_run(tmp_path / "run", found, some.y, **said | options)
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
    assert cli("verify", folder).out.splitlines() == [
        f"note: {ATTACKED}: the attack was not repeated; anisocert attack {folder} --first does",
        f"{folder}: nothing wrong; 2 files checked, 6 rows recomputed",
    ]


def test_everything_as_json_and_the_points(cli, run, tmp_path):
    folder = run()
    found = json.loads(cli("attack", folder, "--first", *QUICK, "--json", "--out", tmp_path / "points.npz").out)
    stored, kept, points = read_run(folder), read_run(folder).attacked, np.load(tmp_path / "points.npz")
    assert (found["attacked"], found["protects"], found["failed"]) == (6, EVERYONE, False)
    assert found["expected"] > 0.012
    assert [one["answers"] for one in found["results"]] == kept.answers.tolist() == points["answers"].tolist()
    for j, ball in enumerate(found["balls"]):
        certified = (stored.column("radius") >= ball["radius"]) & stored.column("correct")
        assert (ball["right"], ball["certified"]) == (kept.withstood[:, j].sum(), certified.sum())
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
    for radius, words in (
        ("-1", "finite and at least 0"),
        ("nan", "finite"),
        ("inf", "finite"),
        ("1e300", "at most 1e+06"),
    ):
        said = cli("attack", folder, "--first", "--radius", radius, code=2).err
        assert f"expected each radius {words}" in said
    assert "--seed" in cli("attack", folder, "--first", "--seed", -1, code=2).err
    for name in (ATTACKED, UNFINISHED):
        (folder / name).symlink_to(tmp_path / "elsewhere")
        said = cli("attack", folder, "--first", *QUICK, "--max", 1, code=2).err
        assert f"{name} is a link, or not a regular file" in said
        (folder / name).unlink()
    assert not (tmp_path / "elsewhere").exists()


WEAK = ("--n", 100, "--starts", 1, "--steps", 1, "--samples", 1)


def test_a_weaker_attack_does_not_replace_a_stronger_one(cli, run):
    folder = run(most=2)
    cli("attack", folder, "--first", *WEAK, "--radius", 0.05, "--radius", 0.1)
    kept = (folder / ATTACKED).read_bytes()
    one = read_run(folder).attacked
    for weaker, what in (
        (("--radius", 0.05), "radius 0.1"),
        (("--radius", 0.01, "--radius", 0.02), "radius 0.05, radius 0.1"),
        (("--radius", 0.05, "--radius", 0.1, "--max", 1), "inputs that this one leaves out (1)"),
        (("--radius", 0.05, "--radius", 0.1, "--n", 50), "n 100"),
    ):  # fmt: skip
        said = cli("attack", folder, "--first", *WEAK, *weaker, code=2).err
        assert f"keeps, which has {what}: add --no-save, or replace it with --force" in said
    cli("attack", folder, "--first", *WEAK, "--radius", 0.05, "--no-save")
    assert (folder / ATTACKED).read_bytes() == kept
    cli("attack", folder, "--first", *WEAK, "--radius", 0.05, "--radius", 0.1, "--steps", 2)  # a stronger one does
    assert read_run(folder).attacked.steps == 2
    cli("attack", folder, "--first", *WEAK, "--radius", 0.05, "--force")
    assert read_run(folder).attacked.radii.tolist() == [0.0, 0.05]
    # Nor does one that found less replace one that contradicts the run.
    write_attacked(folder, replace(one, inside=(one.promised + 1) % 10, attempts=2, expected=0.002))
    said = cli("attack", folder, "--first", *WEAK, "--radius", 0.05, "--radius", 0.1, code=2).err
    assert "which has answers that contradict the run" in said
    said = cli("verify", folder, code=1).out
    assert f"{ATTACKED}: contradicts the run: 2 of 2 regions were answered with another class inside" in said
    # One that is of other rows is no loss.
    write_attacked(folder, replace(one, rows_hash="other"))
    cli("attack", folder, "--first", *WEAK, "--radius", 0.05)


def test_the_points_have_a_place_before_the_attack_begins(cli, run, tmp_path, monkeypatch):
    folder = run(most=1)
    quick = ("attack", folder, "--first", *WEAK, "--radius", 0.05, "--out")
    mine = tmp_path / "mine.npz"
    mine.write_bytes(b"mine")
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setattr("anisocert.cli.attack_first.attack_first", lambda *_, **__: pytest.fail("it has begun"))
        assert "replace it with --force" in cli(*quick, mine, code=2).err
        cli(*quick, tmp_path / "file" / "points.npz", code=1)
    new = tmp_path / "new" / "points.npz"
    for _ in range(2):  # one of our own is replaced
        cli(*quick, new)
    assert np.load(new)["points"].shape == (1, 1, 8, 8)
    cli(*quick, mine, "--force")
    assert np.load(mine)["ids"].tolist() == [0]


def test_the_radius_that_is_told_is_where_least_is_left_of_what_is_certified(run, capsys):
    """Where more is left than certified, that is no loss, however large the difference."""
    stored = read_run(run(most=4))
    labels = stored.column("label")
    one = AttackedFirst(
        radii=np.array([0.0, 0.1, 0.3]), ids=stored.column("idx"), labels=labels,
        answers=np.where([[0, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]], -1, labels[:, None]),
        promised=labels, inside=labels, n=100, alpha=0.001, questions=9, attempts=9, expected=0.009, seed=0, starts=1,
        steps=1, samples=1, model_hash="m", rows_hash="r",
    )  # fmt: skip
    points = np.zeros((4, 1, 8, 8), np.float32)
    tell_first(FirstAttack(one, points, points, np.array([0.3, 0.3, 0.1, -1.0])), stored, as_json=False)
    said = capsys.readouterr().out
    assert "At radius 0.1, 75.0 % are certified for everyone; a stranger who comes first leaves 75.0 % right" in said
    assert "% of all such by this attack, with confidence 95 %)" in said


def test_points_are_valid_inputs_where_the_run_has_a_domain(cli, run, tmp_path):
    folder = run(most=1, domain=(0.0, 1.0))
    said = cli("attack", folder, "--first", *WEAK, "--radius", 0.5, "--out", tmp_path / "points.npz").out
    assert "All points are valid inputs, in the run's domain: 0 to 1." in said
    points = np.load(tmp_path / "points.npz")
    for name in ("points", "inside_points"):
        assert points[name].min() >= 0
        assert points[name].max() <= 1
    outside = run(most=1)
    assert "valid inputs" not in cli("attack", outside, "--first", *WEAK, "--radius", 0.5).out


def test_a_memory_that_answers_later_is_told_that_the_attack_is_stale(cli, run, tmp_path):
    folder = run(ac.Isotropic(), most=1)
    cli("attack", folder, "--first", *WEAK, "--radius", 0.05)
    said = cli("memory", "add", folder, "--memory", tmp_path / "later.sqlite").out
    assert f"the attack is stale now: {folder / ATTACKED} is of other rows, or of another network: repeat" in said


KILLED = """
import os, signal, sys
from anisocert.attack import first
from anisocert.cli import main
hunt, begun = first.Hunt, []
def dying(*given):
    begun.append(given)
    if len(begun) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return hunt(*given)
first.Hunt = dying
first.AT_ONCE["cpu"] = 2
main()
"""


@pytest.mark.parametrize(("more", "words"), [((), "goes on where it was"), (("--no-save",), "begins anew")])
def test_a_stopped_attack_says_how_to_go_on(cli, run, monkeypatch, more, words):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("anisocert.cli.attack_first.attack", stopped)
    assert cli("attack", run(most=2), "--first", *QUICK, *more, code=3).err.endswith(f"the same command {words}\n")


def test_a_killed_attack_goes_on_where_it_was_and_finds_the_same(cli, run, tmp_path, monkeypatch):
    """Three groups of two inputs, the last of which is left. At this radius no answer is close."""
    folder, whole = run(), tmp_path / "whole"
    shutil.copytree(folder, whole)
    options = ("--first", "--n", "500", "--starts", "2", "--steps", "5", "--samples", "8", "--radius", "0.05")
    killed = subprocess.run([sys.executable, "-c", KILLED, "attack", folder, *options])
    assert killed.returncode == -signal.SIGKILL
    assert (folder / UNFINISHED).exists()
    assert not (folder / ATTACKED).exists()
    monkeypatch.setitem(first.AT_ONCE, "cpu", 2)
    hunt, begun = first.Hunt, []
    monkeypatch.setattr(first, "Hunt", lambda *given: begun.append(given) or hunt(*given))
    for place in (folder, whole):
        said = cli("attack", place, *options, "--out", tmp_path / f"{place.name}.npz").err
        goes_on = f"going on from 4 of 6 inputs, done before and kept in {place / UNFINISHED}\n"
        assert (goes_on in said) == (place == folder)
        assert not (place / UNFINISHED).exists()
    assert begun[0][1].ids == read_run(folder).column("idx")[4:].tolist()
    assert len(begun) == 1 + 3
    one, other = (np.load(tmp_path / f"{place.name}.npz") for place in (folder, whole))
    assert sorted(one) == sorted(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    assert read_run(folder).attacked.expected == pytest.approx(read_run(whole).attacked.expected)
