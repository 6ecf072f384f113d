"""What every command says about itself, what the process says when it fails, and what it ends with."""

import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys

import pytest
import typer
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from anisocert import cli as entry
from anisocert.cli.app import app
from anisocert.errors import ArgumentError


def leaves(command, path=()):
    """(path, command) of each command, those of groups too."""
    for name, one in command.commands.items():
        if hasattr(one, "commands"):
            yield from leaves(one, (*path, name))
        else:
            yield (*path, name), one


COMMANDS = dict(leaves(get_command(app)))
NAMES = [" ".join(path) for path in COMMANDS]
HEAVY = ("torch", "numpy", "scipy", "pyarrow", "sklearn", "matplotlib", "plotly", "ray", "onnxruntime", "pandas")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def anisocert(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "anisocert", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_these_commands_are_there():
    assert {"demo", "train", "certify", "predict", "verify", "import", "export", "memory add", "data list"} <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_help(name):
    command = COMMANDS[tuple(name.split())]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    said = plain(result.output)
    assert command.help.split(".")[0].split("\n")[0][:60] in said
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert Text.from_markup(parameter.help).plain == parameter.help, "rich takes words in brackets for markup"
        for option in (*parameter.opts, *parameter.secondary_opts):
            assert option.strip("-").upper() in said.upper()


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_an_example_that_it_would_take(name):
    """The example names options that exist, with values where they take one, and leaves out nothing required."""
    command = COMMANDS[tuple(name.split())]
    example = re.search(r"Example: (anisocert .*)", command.epilog or "")
    assert example is not None, "its epilog has no example"
    words = shlex.split(example[1])
    assert words[: len(name.split()) + 1] == ["anisocert", *name.split()]
    rest, given = words[len(name.split()) + 1 :], []
    options = {option: one for one in command.params for option in (*one.opts, *one.secondary_opts)}
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    while rest:
        word = rest.pop(0)
        parameter = options[word] if word.startswith("--") else arguments.pop(0)
        given.append(parameter)
        if word.startswith("--") and not parameter.is_flag:
            assert not rest.pop(0).startswith("--")
        if parameter.nargs == -1:
            arguments.insert(0, parameter)
    assert {one.name for one in command.params if one.required} <= {one.name for one in given}


def test_help_and_version_load_nothing_heavy():
    code = f"""
import contextlib, io, sys
from anisocert.cli import main
for words in [*{[[*name.split(), "--help"] for name in NAMES]!r}, ["--help"], ["--version"]]:
    sys.argv = ["anisocert", *words]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            main()
        except SystemExit as end:
            assert not end.code, words
    assert "anisocert" in said.getvalue(), words
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "[]\n", done.stderr


def test_exit_codes_are_documented(cli):
    said = " ".join(cli("--help").out.split())
    assert "0 done; 1 an error, or verify, attack or memory check found something wrong; 2 wrong usage; 3 " in said


def test_without_arguments_the_help_is_shown(cli):
    assert "Usage: anisocert" in cli(code=2).out
    assert "Usage: anisocert memory" in cli("memory", code=2).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["verfy", "x"], "no such command 'verfy'. Did you mean 'verify'"),
        (["memory", "ad"], "no such command 'ad'. Did you mean 'add'? (anisocert memory --help says more)"),
        (["train", "--sgima", "1"], "no such option: --sgima; did you mean --sigma? (anisocert train --help says"),
        (["certify", "--methud=fixed"], "no such option: --methud; did you mean --method?"),
        (["predict", "net", "--n", "9"], "missing option '--data'"),
        (["demo", "--n", "many"], "invalid value for '--n'"),
        (["demo", "--n", "10,000"], "expected a whole number, as in 100000, got '10,000'"),
        (["demo", "extra"], "extra"),
    ],
)
def test_wrong_usage_is_one_line_that_helps(cli, arguments, words):
    said = cli(*arguments, code=2)
    assert words in said.err
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


@pytest.mark.parametrize(
    ("ending", "code", "line"),
    [
        (FileNotFoundError(2, "No such file or directory", "a.npz"), 1, "error: a.npz: No such file or directory"),
        (OSError(28, "No space"), 1, "error: No space: make room, then give the command again"),
        (PermissionError(13, "Permission denied", "/root/x"), 1, "error: /root/x: Permission denied"),
        (KeyError("theta\nx"), 1, r"error: KeyError: 'theta\nx' (unexpected: --debug shows where)"),
        (RuntimeError("a\n  b"), 1, "error: RuntimeError: a b (unexpected: --debug shows where)"),
        (KeyboardInterrupt(), 3, "stopped"),
        (typer.Abort(), 1, "stopped"),
    ],
)
def test_how_errors_are_told(cli, monkeypatch, ending, code, line):
    def broken(**_):
        raise ending

    monkeypatch.setattr("anisocert.cli._commands", lambda: broken)
    assert cli("demo", code=code).err == f"{line}\n"
    if code == 1 and not isinstance(ending, typer.Abort):
        monkeypatch.setattr(sys, "argv", ["anisocert", "demo", "--debug"])
        with pytest.raises(type(ending)):
            entry.main()


@pytest.mark.parametrize(
    ("arguments", "work", "words"),
    [
        (("verify", "."), "anisocert.verify.verify", "stopped: nothing is kept "),
        (
            ("predict", "n.onnx", "--data", "digits", "--sigma", 1),
            "anisocert.cli.configuring.load_job",
            "stopped: no answer is kept",
        ),
        (("demo", "--out", "."), "anisocert.train.train", "stopped: what is finished stays in the folder of --out"),
    ],
)
def test_ctrl_c_says_what_is_kept(cli, tmp_path, monkeypatch, arguments, work, words):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, interrupted)
    said = cli(*arguments, code=3)
    assert said.err.startswith(words)
    assert "; the same command begins anew" in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        (KeyboardInterrupt(), 3, "stopped\n"), (typer.Exit(3), 3, ""), (typer.Exit(1), 1, ""), (typer.Exit(), 0, ""),
        (typer.Abort(), 1, "stopped\n"), (typer.BadParameter("too far"), 2, "error: invalid value: too far ("),
        (ArgumentError("expected less"), 2, "error: expected less\n"),
    ],
)  # fmt: skip
def test_how_commands_end(cli, monkeypatch, ending, code, said):
    """As above, but from within a command: typer has its own way with some of these."""
    toy = typer.Typer()

    @toy.command()
    def work() -> None:
        raise ending

    monkeypatch.setattr("anisocert.cli._commands", lambda: get_command(toy))
    told = cli(code=code).err
    assert told.split(" (")[0] == said.split(" (")[0]


def test_a_reader_that_has_seen_enough_is_no_error():
    """`anisocert ... | head -1`"""
    for arguments in (["--help"], ["data", "list"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "anisocert", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(300) == 141


def test_where_there_are_no_other_letters_than_ascii():
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    done = anisocert("certify", "--help", env=plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def without_colour_variables() -> dict[str, str]:
    ours = (
        "FORCE_COLOR",
        "PY_COLORS",
        "NO_COLOR",
        "_TYPER_FORCE_DISABLE_TERMINAL",
    )  # the last: of commands in this process
    return {name: value for name, value in os.environ.items() if name not in ours}


@pytest.mark.parametrize("variables", [{}, {"GITHUB_ACTIONS": "true"}])
def test_no_colour_without_a_terminal(variables):
    for arguments in (["train", "--help"], ["data", "list"], ["dance"]):
        done = anisocert(*arguments, env=without_colour_variables() | variables)
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_on_a_terminal_unless_it_is_not_wanted(variables, coloured):
    ours, theirs = pty.openpty()
    variables = without_colour_variables() | {"TERM": "xterm-256color", "COLUMNS": "100"} | variables
    process = subprocess.Popen([sys.executable, "-m", "anisocert", "--help"], stdout=theirs, env=variables)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # how Linux tells that the other end is closed
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert process.wait(300) == 0
    assert b"certify" in said
    assert bool(re.search(rb"\x1b\[[0-9;]*3[0-7]", said)) is coloured


def test_a_warning_is_printed_once():
    """Libraries warn in every batch, and Python forgets what it has shown whenever filters change."""
    code = """
import sys, warnings
from anisocert import cli
def run():
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
        warnings.warn("said by a library", RuntimeWarning)
    warnings.warn("said too", RuntimeWarning)
    return 0
cli._run = run
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stderr == "warning: said by a library\nwarning: said too\n"


def test_help_of_train_tells_what_it_does():
    from anisocert.data import digits, tiny_imagenet
    from anisocert.models.denoiser import SIZES
    from anisocert.train import RECIPES, Denoising

    said = {parameter.name: parameter.help for parameter in COMMANDS["train",].params}
    assert all(name in re.findall(r"[\w-]+", said["arch"]) for name in SIZES)
    rates = {name: recipe().sgd(50_000, 1).learning_rate for name, recipe in RECIPES.items()}
    assert {name for name in RECIPES if name in said["lr"]} == {name for name, rate in rates.items() if rate != 0.1}
    assert all(f"{rate:g}" in said["lr"] for rate in (*rates.values(), RECIPES["cohen"]().sgd(100, 1).learning_rate))
    assert all(re.search(rf"\b{name}\b", said["changes"]) for name in Denoising().typed())
    assert f"Tiny-ImageNet {tiny_imagenet.PADDING}, others 0" in said["crop"]
    assert (digits("train").crop, digits("train").flip) == (0, False)
    assert "CIFAR-10, Tiny-ImageNet and ImageNet" in said["flip"]


def test_a_wrong_option_of_a_recipe_lists_the_right_ones():
    typed = ["train", "--data", "digits", "--sigma", "0.1", "--out", "none", "--recipe", "macer", "--set", "help"]
    with pytest.raises(ArgumentError, match="expected --set of copies, beta, gamma, weight, start with macer"):
        CliRunner().invoke(app, typed, catch_exceptions=False)
