"""Several processes at one memory, and processes that are killed."""

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from anisocert.errors import AnisocertError
from anisocert.memory import Memory
from anisocert.memory.sqlite import SqliteStore

FORK = multiprocessing.get_context("fork")  # which has imported everything already


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path):
    """Fire at PostgreSQL is in test_fire.py."""
    return tmp_path / "memory.sqlite" if request.param == "file" else request.getfixturevalue("postgres_url")


def write(scene, place, part, parts, count, told):
    """Admit a part of a scene to a memory, and tell each answer."""
    proposals = scene(np.random.default_rng(5), 6, 2, count, crowd=0.4)[part::parts]
    np.random.default_rng(part).shuffle(proposals)
    with Memory.open(place) as memory, open(told, "w") as out:
        for proposed in proposals:
            answer = memory.admit(proposed)
            axes = "" if answer.region is None else hashlib.sha256(answer.region.axes.tobytes()).hexdigest()
            print(answer.id, answer.prediction, answer.note, axes, file=out, flush=True)


def start(scene, path, part, parts, count):
    """A process that writes, and what it tells."""
    reading, writing = os.pipe()
    process = FORK.Process(target=write, args=(scene, path, part, parts, count, writing))
    process.start()
    os.close(writing)
    return process, open(reading)


def acknowledged(output):
    """id -> (class, note, hash of the axes) of each whole line."""
    lines = [line.split(" ") for line in output.split("\n")[:-1]]
    return {int(number): (int(prediction), note, axes) for number, prediction, note, axes in lines}


def check_stored(memory, told):
    """All that was acknowledged is there, bit by bit, and all promises hold together."""
    stored = {
        c.id: (c.prediction, c.note, hashlib.sha256(c.region.axes.tobytes()).hexdigest()) for c in memory.entries()
    }
    for number, answer in told.items():
        if answer[1] in ("kept", "shrunk"):
            assert stored[number] == answer
        else:
            assert number not in stored
    result = memory.check()
    assert result.ok, result
    assert result.entries == len(stored)
    return stored


def test_eight_writers_at_once(tmp_path, scene):
    path = tmp_path / "memory.sqlite"
    writers = [start(scene, path, part, 8, 160) for part in range(8)]
    told = {}
    for writer, answers in writers:
        with answers:
            told |= acknowledged(answers.read())
        writer.join(300)
        assert writer.exitcode == 0
    assert len(told) == 160
    with Memory.open(path) as memory:
        stored = check_stored(memory, told)
    assert {"kept", "shrunk", "inherited", "abstained"} == {note for _, note, _ in told.values()}
    assert len(stored) == sum(note in ("kept", "shrunk") for _, note, _ in told.values())


def test_a_file_that_another_is_making_is_no_foreign_one(tmp_path, monkeypatch):
    path, others, real = tmp_path / "memory.sqlite", [], SqliteStore._pragma

    def pragma(self, name):
        found = real(self, name)
        if name == "application_id" and not others:
            others.append(threading.Thread(target=lambda: Memory.open(path).close()))
            others[0].start()
            others[0].join(0.5)  # it ends, or it waits for us
        return found

    monkeypatch.setattr(SqliteStore, "_pragma", pragma)
    with Memory.open(path) as memory:
        assert memory.policy == "inherit"
    others[0].join()


def test_killed_writers_lose_nothing_they_acknowledged(tmp_path, scene):
    path, told = tmp_path / "memory.sqlite", {}
    rng = np.random.default_rng(1)
    for round_ in range(4):
        writers = [start(scene, path, part, 2, 600) for part in range(2)]
        # Both have begun, so they are killed somewhere in the middle of their work.
        first = [answers.readline() for _, answers in writers]
        time.sleep(rng.uniform(0.0, 0.15))
        for (writer, answers), line in zip(writers, first, strict=True):
            writer.kill()
            with answers:
                told |= acknowledged(line + answers.read())
            writer.join(300)
            assert writer.exitcode == -signal.SIGKILL, round_
        with Memory.open(path) as memory:
            check_stored(memory, {number: answer for number, answer in told.items() if answer[1] in ("kept", "shrunk")})
    assert len(told) > 12


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_around_the_insert(tmp_path, moment):
    """Between inserting and the end of the transaction nothing counts; after it everything does."""
    path = tmp_path / "memory.sqlite"
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from conftest import proposal
from anisocert.memory import Memory
from anisocert.memory.sqlite import SqliteStore
memory = Memory.open({str(path)!r})
memory.admit(proposal(0, 0, [0, 0], [1, 1]))
real = SqliteStore.append
def append(self, head, table, rows):
    real(self, head, table, rows)
    if table == "entries":
        os.kill(os.getpid(), signal.SIGKILL)
if {moment!r} == "before":
    SqliteStore.append = append
memory.admit(proposal(1, 1, [9, 0], [1, 1]))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=300, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with Memory.open(path) as memory:
        assert [c.id for c in memory.entries()] == ([0] if moment == "before" else [0, 1])
        assert memory.check().ok


def test_sees_what_others_store(place, proposal):
    with Memory.open(place) as one, Memory.open(place) as two:
        one.admit(proposal(0, 0, [0, 0], [1, 1]))
        assert two.lookup([0.5, 0.0]).prediction == 0
        assert two.admit(proposal(1, 1, [1.5, 0], [1, 1])).note == "shrunk"
        assert one.admit(proposal(2, 0, [1.6, 0], [1, 1])).prediction == 1
        assert one.admit(proposal(1, 1, [1.5, 0], [1, 1])).note == "shrunk"
        two.reset()
        assert one.lookup([0.5, 0.0]) is None
        assert one.admit(proposal(5, 0, [1.6, 0, 0], [1, 1, 1], model_hash="next")).note == "kept"
        assert len(two) == 1


def test_threads(place, scene):
    memory = Memory.open(place)
    proposals = scene(np.random.default_rng(0), 3, 1, 60)

    def work(part):
        for proposed in proposals[part::4]:
            memory.admit(proposed)
            memory.lookup(proposed.x)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert memory.check().ok


def test_a_forked_process_is_told_to_open_its_own(place, proposal):
    memory = Memory.open(place)
    memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    child = os.fork()
    if child == 0:
        try:
            memory.lookup([0.0, 0.0])
            os._exit(1)
        except AnisocertError as error:
            os._exit(0 if "forked" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert memory.lookup([0.0, 0.0]).prediction == 0


ENDS_LAST = """
import os, sys
from anisocert.memory import Memory
memory = Memory.open(sys.argv[1])
waits, goes_on = os.pipe()
if (child := os.fork()) == 0:
    os.close(goes_on)
    os.read(waits, 1)
    try:
        Memory.open(sys.argv[1])
    except Exception as error:
        print(error)
    sys.exit()  # an ordinary end, which frees the connection that it was forked with
memory.close()
print("ready", flush=True)
sys.stdin.read()
os.close(goes_on)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked")
def test_a_forked_process_touches_no_file_that_it_was_forked_with(tmp_path, proposal):
    """SQLite's locks do not reach a fork: it would write beside others and, when it ends, remove their log."""
    path = tmp_path / "memory.sqlite"
    run = subprocess.Popen(
        [sys.executable, "-c", ENDS_LAST, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "ready\n"

    def admit_and_be_killed():
        memory = Memory.open(path)
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        os.kill(os.getpid(), signal.SIGKILL)

    (other := FORK.Process(target=admit_and_be_killed)).start()
    other.join()
    assert "nor can its file be opened there: close it before the fork" in run.communicate()[0]
    with Memory.open(path) as memory:
        assert memory.lookup([0.5, 0.0]).prediction == 0
