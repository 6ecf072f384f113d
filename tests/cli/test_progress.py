"""Bars and lines: that they move, also where nobody draws them."""

import re

import pytest

from anisocert.cli import progress as module
from anisocert.cli.console import Console
from anisocert.cli.progress import Bar, duration


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when told."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_a_line_a_minute_where_there_is_no_terminal(clock, capsys):
    with Bar(Console(), "certify", "inputs", 40) as bar:
        for _ in range(20):
            clock[0] += 15
            bar.advance(0.5, "90.0% correct")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[0] == "certify: 2 of 40 inputs after 60 seconds, about 19.0 minutes left, 90.0% correct"
    assert lines[-1] == "certify: 10 of 40 inputs after 5.0 minutes, about 15.0 minutes left, 90.0% correct"


def test_what_was_done_before_says_nothing_about_the_speed(clock, capsys):
    with Bar(Console(), "certify", "inputs") as bar:
        bar.begin(40, 30)
        clock[0] += 120
        bar.reach(35, "90.0% correct")
        bar.begin(40, 0, "remember")
        clock[0] += 60
        bar.advance(50)  # padding counts as work too
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "certify: 35 of 40 inputs after 2.0 minutes, about 2.0 minutes left, 90.0% correct",
        "remember: 40 of 40 inputs after 60 seconds, about 0 seconds left",
    ]


def test_quiet_is_quiet(clock, capsys):
    with Bar(Console(quiet=True), "certify", "inputs", 40) as bar:
        clock[0] += 600
        bar.advance()
    assert capsys.readouterr().out == ""


def test_durations():
    assert [duration(s) for s in (1.4, 119, 180, 7200, 3e5)] == [
        "1 second", "119 seconds", "3.0 minutes", "2.0 hours", "3.5 days",
    ]  # fmt: skip


def test_certify_predict_verify_and_show_tell_how_far_they_are(cli, trained_digits, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    few = (trained_digits, "--data", "digits", "--sigma", 0.25, "--max", 4, "--n", 2000, "--rows", 160, "--no-compile")
    said = cli("certify", *few, "--method", "isotropic", "--out", tmp_path / "run").out
    shares = re.findall(r"^certify: (\d) of 4 inputs", said, re.M)
    assert shares == sorted(shares)
    assert len(shares) > 20  # each network call, the search's too
    assert "evaluations/s" in said
    assert len(re.findall(r"^predict: \d of 4 inputs", cli("predict", *few).err, re.M)) > 20
    told = cli("verify", tmp_path / "run", "--recount", 2).err
    assert "recounting: 4,200 of 4,200 votes" in told
    told = cli("show", tmp_path / "run", 0, "--recount").err
    assert "recounting: 2,100 of 2,100 votes" in told
    assert "report: 2 of 2 runs read and shown" in cli("report", tmp_path / "run").err
    said = cli("certify", *few, "--method", "isotropic", "--dry-run", "--out", tmp_path / "other").out
    assert "measuring: 2 of 2 speeds" in said
