"""A command that is printed and pasted gives a shell exactly the arguments that are meant, and runs nothing else."""

import os
import shlex
import shutil
import subprocess

import numpy as np
import pytest

from anisocert import Memory, models
from anisocert.errors import ArgumentError
from anisocert.plain import plain
from anisocert.runs import Configuration
from anisocert.service import KeyFile
from anisocert.service.secret import secret_of
from anisocert.shell import shell_join, shell_quote

ORDINARY = [
    "anisocert", "--data", "cifar10", "runs/a b", "it's", "$(touch PWNED)", "`touch PWNED`", "é ∞ \u05d0", "", "a\\",
]  # fmt: skip
NASTY = [
    "net\x1b[", "/; touch PWNED #/", "\x1b]", "; touch PWNED #\x07", "tab\there", "two\nlines\r", "'\x1b'", "\"\x01\"",
    "$(touch PWNED)\x1b[", "`touch PWNED`\x9b", "!!\x7f", "\u202egnp.exe", "back\\\x1b\\", "\x1bé∞", "\x01a0",
    "\u2028", "\xa0", "\U000e0001", "not text \udcff\udc80", "\\x41\t", "%s\t",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_shell_gets_back_what_was_quoted(tmp_path, locale):
    """Also from what a terminal is given, of which control characters are taken out."""
    arguments = [*ORDINARY, *NASTY, "last"]
    text = plain(shell_join(arguments))
    script = os.fsencode(f"printf '%s\\0' {text}")
    done = subprocess.run(
        ["bash", "-c", script], stdout=subprocess.PIPE, cwd=tmp_path, env=os.environ | {"LC_ALL": locale}, check=True
    )
    assert [os.fsdecode(one) for one in done.stdout.split(b"\0")[:-1]] == arguments
    assert list(tmp_path.iterdir()) == []


def test_what_can_be_printed_is_quoted_as_ever():
    """Marks of earlier versions are compared with it."""
    assert shell_join(ORDINARY) == shlex.join(ORDINARY)


@pytest.mark.parametrize("argument", [*NASTY, "\ud800"])
def test_nothing_is_left_that_a_terminal_obeys(argument):
    assert shell_quote(argument).isprintable()
    assert plain(shell_quote(argument)) == shell_quote(argument)


def test_the_command_that_repeats_a_run(tmp_path):
    asked = Configuration("net\x1b[", "x;touch PWNED #.npz", 0.25, model_id="\u202eb", device="cpu")
    command = asked.command(tmp_path / "run\t")
    assert command.isprintable()
    assert command.startswith(
        f"anisocert certify $'net\\x1b[' --out $'{tmp_path}/run\\x09' --data 'x;touch PWNED #.npz' "
    )


def _missing_keys(path):
    KeyFile(path)


def _open_keys(path):
    path.write_text("{}")
    path.chmod(0o666)
    KeyFile(path)


def _open_secret(path):
    path.write_text("0123456789abcdef0123")
    path.chmod(0o644)
    secret_of(path)


def _other_memory(path):
    with Memory.open(path) as memory:
        memory.expect("one", np.zeros((1, 2)))
        memory.expect("one", np.ones((1, 2)))


def _data_for_a_network(path):
    models.load(path)


@pytest.mark.parametrize(
    ("refused", "before"),
    [(_missing_keys, "keys add "), (_open_keys, "chmod 600 "), (_open_secret, "chmod 600 "),
     (_other_memory, "memory reset "), (_data_for_a_network, "--data ")],
)  # fmt: skip
def test_what_to_type_after_an_error(tmp_path, refused, before):
    path = tmp_path / "a; touch PWNED #\x1b[.npz"
    with pytest.raises(ArgumentError) as error:
        refused(path)
    assert f"{before}$'{tmp_path}/a; touch PWNED #\\x1b[.npz'" in str(error.value)
