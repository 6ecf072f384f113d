"""Adding a finished run to a memory: killed at any moment and repeated, it gives the same answers."""

import contextlib
import json
import math
import os
import shutil
import signal
from dataclasses import replace

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from anisocert.cli.app import app
from anisocert.durable import BusyError, locked
from anisocert.errors import ArgumentError
from anisocert.memory import Memory
from anisocert.runs import read_run
from anisocert.runs.files import read_description
from anisocert.runs.folder import replace_table
from anisocert.verify.verifying import verify
from anisocert.work import memory as room


def add(run, memory, *options):
    """`anisocert memory add`, in this process."""
    arguments = ["memory", "add", str(run), "--memory", str(memory), *map(str, options)]
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None:
        raise done.exception


def writes(moment, *arguments):
    """The same in a process of its own: how often it brought something to the disk; 0 where it was killed (kill -9).

    moment: it is killed the so many-th time, right before if that is odd, right after if it is even.
    """
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(120)  # a fork may wait for ever for a lock of a thread that it does not have
        real, count = os.fsync, 0

        def fsync(number):
            nonlocal count
            count += 1
            if count == moment and count % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            real(number)
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        os.fsync = fsync
        code = 1
        with contextlib.suppress(BaseException):
            add(*arguments)
            code = 0
        os.write(writing, str(count).encode())
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(writing)
    with os.fdopen(reading) as said:
        count = int(said.read() or 0)
    assert code == (0 if count else -signal.SIGKILL)
    return count


def killed(moment, *arguments):
    return not writes(moment, *arguments)


def notes(run):
    return read_run(run).column("memory_note").tolist()


def entries(memory):
    with Memory.open(memory) as opened:
        return [(c.id, c.prediction, c.radius) for c in opened.entries()]


@pytest.fixture(scope="module")
def plain(remembering, do, tmp_path_factory):
    """A run of twelve, not yet in any memory."""
    folder = tmp_path_factory.mktemp("plain")
    assert do(replace(remembering(folder), memory=None), folder / "run").finished
    return folder / "run"


@pytest.fixture(scope="module")
def added(plain, tmp_path_factory):
    """The same run in a memory; never interrupted."""
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(plain, folder / "run")
    assert not killed(math.inf, folder / "run", folder / "memory.sqlite")
    return folder


@pytest.fixture
def run(plain, tmp_path):
    return shutil.copytree(plain, tmp_path / "run")


def test_asking_again_is_not_the_same(added, tmp_path):
    """Without a journal these tests would prove nothing: an abstention here depends on when it is asked for."""
    again = shutil.copytree(added, tmp_path / "again")
    add(again / "run", again / "memory.sqlite", "--force")
    assert notes(again / "run") != notes(added / "run")
    assert "abstained" in notes(added / "run")


def test_once_done_it_is_not_asked_again(plain, added, tmp_path, forge):
    """Whether in the run or in a copy: what is left after the journal is as good as the journal."""
    again = shutil.copytree(added, tmp_path / "again")
    with Memory.open(again / "memory.sqlite") as memory:
        place, generation = str(memory.path.resolve()), memory.generation
    assert generation == read_run(again / "run").memory.generation
    described = read_description(again / "run")
    forge(again / "run", memory=described["memory"] | {"file": place})
    before = (again / "run" / "certificates.parquet").read_bytes()
    add(again / "run", again / "memory.sqlite")
    assert (again / "run" / "certificates.parquet").read_bytes() == before
    assert not list((again / "run").glob("memory.jsonl*"))
    for _ in range(2):
        add(plain, tmp_path / "other.sqlite", "--out", tmp_path / "copy")
        assert notes(tmp_path / "copy") == notes(added / "run")
    add(plain, tmp_path / "other.sqlite", "--out", tmp_path / "copy", "--memory-prefer", "ball")
    assert notes(tmp_path / "copy") != notes(added / "run")  # other regions: another question


def test_answers_in_a_run_that_the_memory_does_not_back_are_not_believed(run, tmp_path):
    add(run, tmp_path / "memory.sqlite")
    good, table = notes(run), read_run(run).table
    at = table.column_names.index("memory_radius")
    table = table.set_column(at, "memory_radius", pa.array([9.0] * len(table)))
    replace_table(run, read_description(run), table)
    what = "but memory answers with radius 9.0"
    with pytest.raises(ArgumentError, match=rf"certificates.parquet, got .*{what}.*: with --force \(force=True\)"):
        add(run, tmp_path / "memory.sqlite")
    add(run, tmp_path / "memory.sqlite", "--force")
    assert notes(run) != good
    assert verify(run).ok


def test_killed_at_every_write(plain, added, same, tmp_path):
    moment, going_on = 1, True
    while going_on:
        folder = tmp_path / str(moment)
        run, memory = shutil.copytree(plain, folder / "run"), folder / "memory.sqlite"
        going_on = killed(moment, run, memory)
        assert verify(run).ok
        if going_on:
            assert not killed(math.inf, run, memory)
        assert same(run, added / "run")
        assert entries(memory) == entries(added / "memory.sqlite")
        assert not (run / "memory.jsonl").exists()
        assert not verify(run).notes
        moment += 1
    assert moment > 15


def test_a_journal_belongs_to_one_memory(run, added, same, tmp_path):
    """What another memory has answered is no answer of this one, nor what this one has answered before a reset."""
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"

    def half_way():
        assert killed(8, run, first, "--force")
        assert (run / "memory.jsonl").read_text().count("\n") > 3
        assert "interrupted" in verify(run).notes[0]

    half_way()
    add(run, second)
    assert same(run, added / "run")
    assert entries(second) == entries(added / "memory.sqlite")
    half_way()
    with Memory.open(first) as memory:
        memory.reset()
    add(run, first, "--force")
    assert entries(first) == entries(added / "memory.sqlite")
    for path in tmp_path.glob("first.sqlite*"):
        path.unlink()
    half_way()
    for path in tmp_path.glob("first.sqlite*"):
        path.unlink()
    add(run, first, "--force")
    assert entries(first) == entries(added / "memory.sqlite")
    assert same(run, added / "run")


def test_what_is_kept_of_regions_belongs_to_the_journal_too(run, tmp_path):
    assert killed(8, run, tmp_path / "first.sqlite")
    before = (run / "memory.jsonl").read_bytes().splitlines()
    assert killed(3, run, tmp_path / "first.sqlite", "--memory-prefer", "ball")
    after = (run / "memory.jsonl").read_bytes().splitlines()
    assert b'"ball"' in after[0]
    assert len(after) < len(before)


def test_a_copy_for_another_memory_leaves_the_journal_alone(run, added, same, tmp_path):
    assert killed(8, run, tmp_path / "first.sqlite")
    journal = (run / "memory.jsonl").read_bytes()
    copy = ("--out", tmp_path / "copy")
    assert killed(6, run, tmp_path / "second.sqlite", *copy)
    assert (tmp_path / "copy" / "memory.jsonl").is_file()
    add(run, tmp_path / "second.sqlite", *copy)
    assert same(tmp_path / "copy", added / "run")
    assert (run / "memory.jsonl").read_bytes() == journal
    add(run, tmp_path / "first.sqlite")
    assert same(run, added / "run")


def test_interrupted_for_one_memory_and_then_for_another_it_is_still_a_run(plain, added, tmp_path):
    """Between the exchange of the table and the last word about it, and then around that of the next."""
    folders = (shutil.copytree(plain, tmp_path / name) for name in ("whole", "half"))
    total = writes(math.inf, next(folders), tmp_path / "whole.sqlite")
    half = next(folders)
    assert killed(total - 1, half, tmp_path / "half.sqlite")
    assert "next" in read_run(half).description
    assert read_run(half).has_memory
    for moment in range(total - 4, total + 1):
        run = shutil.copytree(half, tmp_path / str(moment))
        other = (run, tmp_path / f"{moment}.sqlite", "--memory-policy", "worst-case", "--force")
        assert killed(moment, *other)
        assert len(read_run(run)) == 12
        add(*other)
        assert verify(run).ok
        assert notes(run) != notes(added / "run")


def test_one_process_at_a_time(run, tmp_path):
    lock = run / "memory.jsonl.lock"
    with locked(lock), pytest.raises(BusyError, match=r"memory.jsonl.lock to be free"):
        add(run, tmp_path / "memory.sqlite")
    add(run, tmp_path / "memory.sqlite")  # what a killed process has left does no harm
    assert not lock.exists()
    (tmp_path / "mine").write_text("not to be touched")
    lock.symlink_to(tmp_path / "mine")
    with pytest.raises(ArgumentError, match=r"memory.jsonl.lock, got a symbolic link"):
        add(run, tmp_path / "memory.sqlite")
    assert (tmp_path / "mine").read_text() == "not to be touched"


def test_what_another_process_added_before_the_lock_is_not_asked_again(run, added, tmp_path, monkeypatch):
    def later(*arguments, **options):
        monkeypatch.undo()
        add(run, tmp_path / "memory.sqlite")
        return locked(*arguments, **options)

    monkeypatch.setattr(room, "locked", later)
    add(run, tmp_path / "memory.sqlite")
    assert notes(run) == notes(added / "run")


def test_a_run_that_cannot_be_added_gets_no_lock(run, tmp_path):
    (run / "certificates.parquet").write_bytes(b"other")
    for folder in (run, tmp_path / "none"):
        with pytest.raises(ArgumentError), Memory.open(tmp_path / "memory.sqlite") as memory:
            room.add_to_memory(folder, memory)
    assert not (run / "memory.jsonl.lock").exists()
    assert not (tmp_path / "none").exists()


ANSWER = {"memory_prediction": 1, "memory_radius": 9.0, "memory_proxy_radius": 9.0, "memory_note": "inherited"}
FORGED = {
    "garbage": b"garbage\n",
    "a list": b"[]\n",
    "an empty object": b"{}\n",
    "deep": b"[" * 100_000 + b"\n",
    "NULs": bytes(40) + b"\n",
    "a lone surrogate": json.dumps(ANSWER | {"memory_note": "\ud800"}).encode() + b"\n",
    "another type": json.dumps(ANSWER | {"memory_radius": "9"}).encode() + b"\n",
    "one more column": json.dumps(ANSWER | {"more": 1}).encode() + b"\n",
    "nothing": b"\n",
    "a radius that nobody promised": json.dumps(ANSWER).encode() + b"\n",
    "a promise that is not there": json.dumps(ANSWER | {"memory_note": "kept"}).encode() + b"\n",
    "an abstention with a class": json.dumps(ANSWER | {"memory_note": "abstained"}).encode() + b"\n",
    "not a number": json.dumps(ANSWER | {"memory_radius": math.nan}).encode() + b"\n",
}


@pytest.mark.parametrize("lines", FORGED.values(), ids=FORGED)
def test_what_the_memory_has_not_answered_is_not_believed(run, added, same, tmp_path, lines):
    """Also after a right first line; and the remedy that is named works."""
    assert killed(8, run, tmp_path / "first.sqlite")
    journal = run / "memory.jsonl"
    written = journal.read_bytes()
    journal.write_bytes(written + lines)
    with pytest.raises(ArgumentError, match=r"expected the memory.s answers in .*memory.jsonl, got .*remove it"):
        add(run, tmp_path / "first.sqlite")
    journal.write_bytes(written)
    add(run, tmp_path / "first.sqlite")
    assert same(run, added / "run")


def test_more_answers_than_inputs_are_not_believed(run, tmp_path):
    assert killed(8, run, tmp_path / "first.sqlite")
    journal = run / "memory.jsonl"
    journal.write_bytes(journal.read_bytes() + 20 * FORGED["a radius that nobody promised"])
    with pytest.raises(ArgumentError, match=r"got \d+ for 12 inputs"):
        add(run, tmp_path / "first.sqlite")
