"""Texts from files cannot control a terminal, and a stream that is closed or full ends in no traceback."""

import os
import pty
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from anisocert.plain import plain

EVIL = "cat\x1b[2J\x1b]0;owned\x07\x9b31m\r\b[bold][red]dog[link=x]\u202e"


def anisocert(*arguments: object, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "anisocert", *map(str, arguments)]
    return subprocess.run(command, text=True, timeout=120, **{"stderr": subprocess.PIPE, **options})


def test_plain_text():
    assert plain(EVIL) == "cat31m[bold][red]dog[link=x]"
    assert plain("tabs\tand\nlines, é, ∞, \u05d0") == "tabs\tand\nlines, é, ∞, \u05d0"
    assert plain("\x1b" * 3 + "[") == "["


@pytest.mark.parametrize("begun", ["\x1b[", "\x1b[0", "\x1b[ ", "\x1b]", "\x1b]0;a b", "\x1b"])
def test_what_is_in_quotes_stays_in_them(begun):
    """Else the rest of a printed command would be read as code."""
    kept = begun.replace("\x1b", "")
    assert (
        plain(f"a 'net{begun}' --o '; b #\x07' \"{begun}\" `{begun}`")
        == f"a 'net{kept}' --o '; b #' \"{kept}\" `{kept}`"
    )


@pytest.fixture(scope="module")
def run(quick, do, trained_digits, tmp_path_factory, forge):
    """A run whose description, ids and class names say more than they should."""
    folder = tmp_path_factory.mktemp("evil")
    np.savez(folder / "d.npz", x=np.random.default_rng(0).random((4, 1, 8, 8), np.float32), y=np.arange(4))
    do(replace(quick, model=str(trained_digits), data=str(folder / "d.npz"), n=100), folder / "run")
    run = shutil.move(folder / "run", folder / "run\x1b[31m[red]")
    return forge(run, data=EVIL, recipe=EVIL, memory=EVIL)


@pytest.mark.parametrize(
    ("command", "code"),
    [("show RUN 0", 0), ("report RUN --table terminal", 0), ("report RUN --table csv", 0), ("show RUN 9", 2),
     ("verify RUN", 0), ("export RUN --out RUN", 2), ("diagnose RUN --data digits", 2)],
)  # fmt: skip
def test_escapes_in_a_run_do_not_reach_the_terminal(cli, run, command, code):
    said = cli(*(word.replace("RUN", str(run)) for word in command.split()), code=code)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", said.out + said.err)
    assert said.out + said.err != ""
    assert "(unexpected: " not in said.err


def test_a_terminal_has_colours_and_no_escape_of_a_file(run):
    """What rich draws itself is left, also where every text is cleaned."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "anisocert", "show", str(run), "0"], stdout=theirs, stderr=theirs,
        env=os.environ | {"TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how Linux tells that the other end is closed
        pass
    assert process.wait(60) == 0, shown
    assert b"\x1b[1m" in shown
    assert b"[bold][red]dog" in shown
    for wrong in (b"\x1b[2J", b"\x1b]0;", b"\x07", b"\x08", "\x9b".encode(), "\u202e".encode()):
        assert wrong not in shown


@pytest.mark.parametrize("arguments", [["--version"], ["data", "list"], ["train", "--help"]])
def test_a_closed_standard_output_is_no_error(arguments):
    done = anisocert(*arguments, preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_streams_are_nobodys_files():
    """Else the next file that is opened would be the standard output, and get what is printed."""
    command = f"{sys.executable} -m anisocert data fetch nothing >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", command], timeout=120).returncode == 2


def test_a_reader_that_has_seen_enough():
    read, write = os.pipe()
    os.close(read)
    done = anisocert("data", "list", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_an_output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        done = anisocert("data", "list", stdout=full)
        assert done.returncode == 1
        assert done.stderr == "error: No space left on device: make room, then give the command again\n"
        assert anisocert("data", "info", "nowhere", stdout=full, stderr=full).returncode == 2


def test_letters_that_the_terminal_does_not_have(tmp_path):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = anisocert("data", "info", tmp_path / "é\udcff", env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith("error: expected")
    assert len(done.stderr.splitlines()) == 1
