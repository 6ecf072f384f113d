"""Runs that are killed, run out of disk, or end at the same moment."""

import contextlib
import multiprocessing
import os
import random
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from anisocert.memory import Memory
from anisocert.runs import read_run
from anisocert.work import add_to_memory, load_job

COMMAND = ("--data", "digits", "--method", "fixed", "--n", "200", "--max", "40", "--device", "cpu", "--rows", "160")
COMMAND = (*COMMAND, "--precision", "float32", "--no-compile", "--sigma", "0.25")


@pytest.fixture(scope="module")
def spawn(network_file):
    """Start `anisocert certify` in a process of its own, forked from one that has imported everything already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["anisocert.cli.app", "anisocert.cli.certify_text", "anisocert.work.workers", "sklearn.datasets"]
    )

    def start(folder: Path, *arguments: str) -> multiprocessing.Process:
        before, sys.argv = sys.argv, ["anisocert", "certify", str(network_file), *COMMAND, *arguments]
        sys.argv += ["--out", str(folder), "--quiet"]
        try:
            process = context.Process(target=runpy.run_module, args=("anisocert",), kwargs={"run_name": "__main__"})
            process.start()
        finally:
            sys.argv = before
        return process

    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    yield start
    os.environ.pop("OMP_NUM_THREADS")
    if before is not None:
        os.environ["OMP_NUM_THREADS"] = before


def test_killed_at_random_moments(spawn, whole, same, tmp_path):
    """Several times, at any point of the time it takes; kill -9 leaves no time for any farewell."""
    for name in ("with imports", "whole"):
        started = time.monotonic()
        spawn(tmp_path / name).join()
    seconds, rng, kills = time.monotonic() - started, random.Random(0), 0
    while kills == 0:  # where nothing was slow enough, others had used the machine before: sooner, then
        shutil.rmtree(tmp_path / "killed", ignore_errors=True)
        for _ in range(6):
            process = spawn(tmp_path / "killed")
            process.join(rng.uniform(0, 0.8 * seconds))
            kills += process.exitcode is None
            process.kill()
            process.join()
        seconds /= 2
    process = spawn(tmp_path / "killed")
    process.join()
    assert process.exitcode == 0
    assert same(tmp_path / "killed", whole)
    assert not (tmp_path / "killed" / "unfinished").exists()


@pytest.mark.filterwarnings("ignore:Without any noise")  # its network was never trained
def test_killed_by_the_shell(network_file, whole, same, tmp_path, monkeypatch, capsys):
    from anisocert.cli import main

    arguments = ["anisocert", "certify", str(network_file), *COMMAND, "--out", str(tmp_path)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-m", *arguments], env=env, stdout=subprocess.DEVNULL)
    while not list(tmp_path.glob("unfinished/part-*.parquet")) and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it was faster than the kill"
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert "inputs were done before" in capsys.readouterr().out
    assert same(tmp_path, whole)


def test_killed_at_every_write(remembering, do, same, tmp_path, killed_at_every_write):
    """Few inputs, as each adds a write to be killed at; but every kind of answer is among theirs."""

    def run(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        do(replace(remembering(folder), ids="0-1,3,8,11"), folder / "run")

    def check(folder: Path) -> None:
        assert same(folder / "run", tmp_path / "whole" / "run")
        assert not (folder / "run" / "unfinished").exists()

    run(tmp_path / "whole")
    notes = read_run(tmp_path / "whole" / "run").table["memory_note"].to_pylist()
    assert set(notes) == {"kept", "abstained", "inherited", "shrunk"}
    assert killed_at_every_write(run, check) >= 15


def test_the_memory_answers_as_after_the_fact(remembering, do, tmp_path):
    asked = remembering(tmp_path)
    assert do(asked, tmp_path / "run").finished
    run = read_run(tmp_path / "run")
    assert run.table.column_names[-4:] == [
        "memory_prediction", "memory_radius", "memory_proxy_radius", "memory_note",
    ]  # fmt: skip
    do(replace(asked, memory=None, memory_policy=None), tmp_path / "plain")
    job = load_job(asked)
    inputs = {number: job.chunk([number]).x[0] for number in job.ids}
    with Memory.open(tmp_path / "later.sqlite") as memory:
        notes = add_to_memory(tmp_path / "plain", memory, inputs)
    assert {"kept", "inherited", "abstained"} <= set(notes), "nothing depends on what was promised before"
    plain = read_run(tmp_path / "plain")
    assert plain.table.drop_columns("seconds").equals(run.table.drop_columns("seconds"))
    assert run.description["memory"]["policy"] == "inherit"
    assert do(asked, tmp_path / "run").finished


def test_a_memory_of_something_else_is_refused_before_the_work(remembering, do, tmp_path):
    asked = remembering(tmp_path)
    do(asked, tmp_path / "run")
    for change, said in (({"norm": "l1"}, "for norm 1"), ({"memory_policy": "abstain"}, "abstain")):
        with pytest.raises(Exception, match=said):
            do(replace(asked, **change), tmp_path / "other")
    assert not list((tmp_path / "other").rglob("part-*"))


def test_shards_that_end_at_the_same_time(spawn, whole, same, tmp_path):
    for trial in range(2):
        folder = tmp_path / str(trial)
        together = [spawn(folder, "--shard", f"{i}/3") for i in range(1, 4)]
        for process in together:
            process.join()
        assert [process.exitcode for process in together] == [0] * 3
        assert same(folder, whole)
        assert not (folder / "unfinished").exists()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("needs root, and the right to mount a disk of 1 MB")
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.mark.filterwarnings("ignore:Without any noise")  # its network was never trained
def test_a_full_disk(small_disk, network_file, whole, same, monkeypatch, capsys):
    from anisocert.cli import main

    monkeypatch.setattr(sys, "argv", ["anisocert", "certify", str(network_file), *COMMAND, "--quiet", "--out"])
    sys.argv.append(str(small_disk / "run"))
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    filler = small_disk / "filler"
    for room in (0, 8 * 1024, 40 * 1024):
        with contextlib.suppress(OSError), filler.open("wb", 0) as file:
            while True:
                file.write(b"x" * 4096)
        os.truncate(filler, max(0, filler.stat().st_size - room))
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 1
        place = re.escape(f"{small_disk}/run")
        assert re.fullmatch(rf"error: {place}.*: No space left on device: make room, .*\n", capsys.readouterr().err)
        assert not (small_disk / "run" / "run.json").exists()
    filler.unlink()
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert same(small_disk / "run", whole)
