"""Stages run once, in order, and go on after a stop. The stages are real commands."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from anisocert.errors import ArgumentError
from anisocert.reproduce import Stage, run_stages

LONG = "train --data few.npz --arch small-cnn --sigma 0.25 --epochs 50000 --out networks/n"


def quick(name, *needs):
    return Stage(name, ("--version",), needs)


def few(folder):
    """Inputs for a training that begins to learn at once."""
    np.savez(folder / "few.npz", x=np.random.default_rng(0).random((64, 1, 8, 8), np.float32), y=np.arange(64) % 2)


def test_a_stage_comes_after_what_it_needs_and_is_done_once(tmp_path):
    told = []
    stages = [quick("c", "b"), quick("b", "a"), quick("a")]
    outcome = run_stages(stages, tmp_path, jobs=3, tell=lambda *what: told.append(what))
    assert outcome.done == ["a", "b", "c"]
    assert [name for name, what in told if what == "started"] == ["a", "b", "c"]
    assert "anisocert" in (tmp_path / "logs" / "a.log").read_text()
    told.clear()
    assert sorted(run_stages(stages, tmp_path, tell=lambda *what: told.append(what)).done) == ["a", "b", "c"]
    assert told == []


def test_what_was_done_before_need_not_be_chosen_again(tmp_path):
    a, b, c = quick("a"), quick("b", "a"), quick("c", "b")
    assert run_stages([b], tmp_path, among=[a, b, c]).left == ["b"]
    assert run_stages([c], tmp_path, among=[a, b, c]).missing == ["a", "b"]
    assert run_stages([c, b], tmp_path, among=[a, b, c]).missing == ["a"]
    run_stages([a], tmp_path)
    assert run_stages([b], tmp_path, among=[a, b, c]).done == ["b"]
    changed = Stage("a", ("--help",))
    assert run_stages([c], tmp_path, among=[changed, b, c]).done == ["c"]  # which does not need it itself
    with pytest.raises(ArgumentError, match="a different command"):
        run_stages([quick("d", "a")], tmp_path, among=[changed, b, c])


@pytest.mark.parametrize("name", ["stages", "logs", "memories", "networks", "runs"])
def test_nothing_is_written_behind_a_link(tmp_path, name):
    (tmp_path / "out").mkdir()
    (victim := tmp_path / "victim").mkdir()
    (tmp_path / "out" / name).symlink_to(victim)
    with pytest.raises(ArgumentError, match=f"{name}, got a link"):
        run_stages([quick("a")], tmp_path / "out")
    assert not list(victim.iterdir())


def test_a_failure_is_told_and_stops_only_what_needs_it(tmp_path):
    told = {}
    stages = [Stage("bad", ("certfy",)), quick("after", "bad"), quick("other")]
    outcome = run_stages(stages, tmp_path, tell=lambda name, what: told.update({name: what}))
    assert (outcome.done, outcome.failed, outcome.left) == (["other"], ["bad"], ["after"])
    assert outcome.missing == []
    assert "failed: error: no such command 'certfy'" in told["bad"]


def test_a_stage_done_by_another_command_is_refused(tmp_path):
    run_stages([quick("a")], tmp_path)
    with pytest.raises(ArgumentError, match="a different command"):
        run_stages([Stage("a", ("--help",))], tmp_path)


def test_a_run_that_is_gone_is_not_done_and_a_network_may_be(tmp_path):
    run, network = (Stage(name, (name, "--help", "--out", f"made/{name}")) for name in ("certify", "train"))
    for folder in ("made/certify", "made/train"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "made" / "certify" / "run.json").touch()
    assert run_stages([run, network], tmp_path).failed == []
    assert run_stages([run], tmp_path).done == ["certify"]
    shutil.rmtree(tmp_path / "made")
    assert run_stages([network], tmp_path).done == ["train"]
    with pytest.raises(ArgumentError, match=r"certify was done, and .*certify/run.json is gone: put it back, or rem"):
        run_stages([run], tmp_path)


def test_an_attack_that_is_gone_is_not_done(tmp_path):
    kept, stage = tmp_path / "runs" / "attacked-first.json", Stage("a", ("attack", "runs", "--help"))
    kept.parent.mkdir()
    kept.touch()
    assert run_stages([stage], tmp_path).done == run_stages([stage], tmp_path).done == ["a"]
    kept.unlink()
    with pytest.raises(ArgumentError, match=r"a was done, and .*runs/attacked-first.json is gone: put it back, or rem"):
        run_stages([stage], tmp_path)


@pytest.mark.parametrize("noted", [True, False], ids=["", "a mark from before stages were noted"])
def test_what_depends_on_a_stage_that_is_redone_is_not_done(tmp_path, noted):
    a, _, c = stages = [quick("a"), quick("b", "a"), quick("c", "b")]
    folder = tmp_path / "stages"
    assert run_stages(stages, tmp_path).done == run_stages(stages, tmp_path).done == ["a", "b", "c"]
    if not noted:
        said = json.loads((folder / "b.json").read_text())
        del said["needs"]
        (folder / "b.json").write_text(json.dumps(said))
        (folder / "c.json").unlink()
    (folder / "a.json").unlink()
    if not noted:
        assert run_stages(stages, tmp_path).failed == []
        return
    words = f"b was done before a, which it needs, was removed or redone: use another --out, or remove {folder}/b.json"
    with pytest.raises(ArgumentError, match=re.escape(words)):
        run_stages(stages, tmp_path)
    assert run_stages([a], tmp_path).done == ["a"]
    with pytest.raises(ArgumentError, match=re.escape(words)):
        run_stages([c], tmp_path, among=stages)
    (folder / "b.json").unlink()
    with pytest.raises(ArgumentError, match="c was done before b, which it needs, was removed or redone"):
        run_stages(stages, tmp_path)
    (folder / "c.json").unlink()
    assert run_stages(stages, tmp_path).done == ["a", "b", "c"]


@pytest.mark.parametrize("noted", [True, False], ids=["", "a mark from before files were noted"])
def test_a_stage_done_with_other_files_is_refused(tmp_path, noted):
    weights, mark = tmp_path / "w.pth", tmp_path / "stages" / "a.json"
    weights.write_bytes(b"these")
    stage = Stage("a", ("--version",), files=(str(weights),))
    assert run_stages([stage], tmp_path).done == ["a"]
    if not noted:
        said = json.loads(mark.read_text())
        mark.write_text(json.dumps({"command": said["command"], "seconds": said["seconds"]}))
    assert run_stages([stage], tmp_path).done == ["a"]
    weights.write_bytes(b"others")
    if not noted:
        assert run_stages([stage], tmp_path).done == ["a"]
        return
    words = f"a was done with another {weights}: use another --out, or remove {mark} and what it made, or put"
    for chosen, among in (([stage], ()), ([quick("b", "a")], [stage])):
        with pytest.raises(ArgumentError, match=re.escape(words)):
            run_stages(chosen, tmp_path, among=among)
    weights.write_bytes(b"these")
    assert run_stages([stage], tmp_path).done == ["a"]


def test_a_stage_whose_file_changes_meanwhile_is_not_done(tmp_path):
    """Nobody knows which of the two it has read."""
    file, told = tmp_path / "w.npz", {}
    file.write_bytes(b"before")

    def tell(name, what):
        told[name] = what
        if what == "started":
            file.write_bytes(b"after")

    stage = Stage("a", ("--version",), files=(str(file),))
    assert run_stages([stage], tmp_path / "out", tell=tell).failed == ["a"]
    assert told["a"].startswith(f"failed: {file} changed while it ran")
    assert run_stages([stage], tmp_path / "out").done == ["a"]


def test_nothing_in_the_folder_is_imported(tmp_path, monkeypatch):
    for name in ("rich", "typer", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep)  # an empty part means the folder, too
    assert run_stages([quick("a")], tmp_path).done == ["a"]
    assert not (tmp_path / "ran").exists()


def test_a_log_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "mine").touch()
    (tmp_path / "logs" / "a.log").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"symbolic link"):
        run_stages([quick("a")], tmp_path)
    assert (tmp_path / "mine").read_text() == ""


@pytest.mark.parametrize("text", ["", "{}", "[]", '"done"', '{"command": 3}', '{"command": "x", "files": [1]}'])
def test_a_mark_that_is_none_is_said(tmp_path, text):
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "a.json").write_text(text)
    with pytest.raises(ArgumentError, match=r"expected what is known of a stage in .*a.json, got something else"):
        run_stages([quick("a")], tmp_path)


def test_time_is_up_and_the_next_call_goes_on(tmp_path):
    log = tmp_path / "networks" / "n" / "log.jsonl"

    def epochs():
        lines = log.read_text().splitlines() if log.exists() else []
        return [json.loads(line)["epoch"] for line in lines if '"epoch"' in line and line.endswith("}")]

    few(tmp_path)
    stage = Stage("train n", tuple(LONG.split()))
    outcome = run_stages([stage, quick("x", "train n")], tmp_path, out_of_time=lambda: len(epochs()) >= 2)
    assert (outcome.left, outcome.missing) == (["train n", "x"], [])
    assert not (tmp_path / "stages" / "train-n.json").exists()
    before = len(epochs())
    run_stages([stage], tmp_path, out_of_time=lambda: len(epochs()) > before)
    assert epochs() == list(range(1, len(epochs()) + 1))
    assert before < len(epochs()) < 50_000


def test_what_has_ended_when_time_is_up_is_told_as_it_ended(tmp_path, monkeypatch):
    from anisocert.reproduce import running

    started, start, asked = [], running._start, []

    def noted(*stage):
        started.append(start(*stage))
        return started[-1]

    def out_of_time():
        asked.append(None)
        for one in started:
            os.waitid(os.P_PID, one.process.pid, os.WEXITED | os.WNOWAIT)
        return len(asked) > 1

    monkeypatch.setattr(running, "_start", noted)
    outcome = run_stages([quick("a"), Stage("bad", ("certfy",))], tmp_path, jobs=2, out_of_time=out_of_time)
    assert (outcome.done, outcome.failed, outcome.left) == (["a"], ["bad"], [])
    assert (tmp_path / "stages" / "a.json").exists()


def test_a_stage_is_asked_to_end_even_in_the_background_where_shells_let_ctrl_c_be_ignored(tmp_path):
    few(tmp_path)
    stage, log = Stage("train n", tuple(LONG.split())), tmp_path / "networks" / "n" / "log.jsonl"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        outcome = run_stages(
            [stage], tmp_path, out_of_time=lambda: log.exists() and len(log.read_text().splitlines()) > 1
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcome.left == ["train n"]
    assert (tmp_path / "logs" / "train-n.log").read_text().endswith("the same command resumes\n")  # it was not killed


RUN = f"""
import sys
from pathlib import Path
from anisocert.reproduce import Stage, run_stages
run_stages([Stage("train n", tuple({LONG!r}.split()))], Path(sys.argv[1]))
"""


@pytest.fixture
def at_work(tmp_path):
    """A process that runs a long stage, once that has begun to learn."""
    few(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stderr=subprocess.DEVNULL)
    log, until = tmp_path / "networks" / "n" / "log.jsonl", time.monotonic() + 300  # two start-ups, on a busy machine
    try:
        while not (log.exists() and len(log.read_text().splitlines()) > 1):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_second_one_waits_and_goes_on_when_the_first_is_killed(at_work, tmp_path):
    """A killed one has no time to end its stages; they end by themselves, and only then is their lock free."""
    told, long = [], Stage("train n", tuple(LONG.split()))
    threading.Timer(1.0, at_work.kill).start()

    def enough():
        return ("train n", "started") in told

    outcome = run_stages([long, quick("a")], tmp_path, out_of_time=enough, tell=lambda *what: told.append(what))
    assert told[0] == ("train n", "another process is doing it; waiting for it to end")
    assert told[1] == ("a", "started")
    assert outcome.done == ["a"]
    assert not outcome.failed
