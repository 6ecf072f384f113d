"""Options from a TOML file, under the names they have on the command line."""

import json
from typing import Annotated

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from anisocert.cli.app import app
from anisocert.cli.config import ConfigFile
from anisocert.models import load
from anisocert.runs import read_run

toy = typer.Typer()


@toy.command("show")
def show(
    model: str,
    sigma: Annotated[float, typer.Option()],
    most: Annotated[int | None, typer.Option("--max")] = None,
    target_radius: float = 0.0,
    flip: bool | None = None,
    quiet: Annotated[bool, typer.Option("--quiet")] = False,
    option: Annotated[list[str] | None, typer.Option("--set")] = None,
    name: str = "nobody",
    config: ConfigFile = None,
) -> None:
    """Say what came."""
    typer.echo(json.dumps([model, sigma, most, target_radius, flip, quiet, option, name]))


@toy.command("other")
def other() -> None:
    """So that commands have names."""


@pytest.fixture
def shown(tmp_path):
    """What the toy command gets from a file and arguments."""

    def run(text, *arguments, code=0):
        (tmp_path / "c.toml").write_text(text)
        result = CliRunner().invoke(toy, ["show", "--config", str(tmp_path / "c.toml"), *arguments])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else " ".join(result.output.replace("│", " ").split())

    return run


def test_every_kind_of_value(shown):
    text = 'model = "net"\nmax = 3\ntarget-radius = 0.5\nflip = false\nquiet = true\nset = ["a=1", "b=2"]\nname = "x"'
    assert shown(text, "--sigma", "0.25") == ["net", 0.25, 3, 0.5, False, True, ["a=1", "b=2"], "x"]
    assert shown("sigma = 1\ntarget_radius = 2", "net") == ["net", 1.0, None, 2.0, None, False, None, "nobody"]


@pytest.mark.parametrize("table", ["", "[certify]\n"])
@pytest.mark.parametrize("option", ["model", "denoise", "selector", "codebook"])
def test_a_file_names_no_code(tmp_path, monkeypatch, option, table):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stranger.py").write_text("open('executed', 'w')")
    (tmp_path / "c.toml").write_text(f'{table}{option} = "stranger:go"')
    model = [] if option == "model" else ["net.safetensors"]
    done = CliRunner().invoke(
        app, ["certify", "--config", "c.toml", *model, "--data", "digits", "--sigma", "1", "--out", "r"]
    )
    assert done.exit_code == 2
    assert "got the function stranger:go: type it" in " ".join(done.output.replace("│", " ").split())
    assert not (tmp_path / "executed").exists()


def test_lists_name_no_code_either(shown):
    said = shown('model = "net"\nset = ["a=1", "stranger:go"]', "--sigma", "1", code=2)
    assert "got the function stranger:go: type it, as in --set stranger:go" in said


@pytest.mark.parametrize("text", ["postgresql://someone@there/base", "C:\\\\data", "digits:1-3", "mean=0.5:1"])
def test_other_texts_with_a_colon_are_none(shown, text):
    assert shown(f'model = "net"\nname = "{text}"', "--sigma", "1")[-1] == text.replace("\\\\", "\\")


def test_the_command_line_wins(shown):
    text = 'model = "net"\nsigma = 0.25\nmax = 3\nflip = true\nset = ["a=1"]\nquiet = true'
    arguments = ("mine", "--sigma", "0.5", "--max", "7", "--no-flip", "--set", "b=2")
    assert shown(text, *arguments) == ["mine", 0.5, 7, 0.0, False, True, ["b=2"], "nobody"]


def test_a_table_is_for_one_command(shown):
    text = 'model = "net"\nsigma = 0.25\nmax = 3\n[show]\nmax = 4\n[other]\nwhatever = 1'
    assert shown(text)[:3] == ["net", 0.25, 4]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sgima = 0.25", "'sgima' is not an option of root show; did you mean 'sigma'?"),
        ("target_radios = 1", "did you mean 'target-radius'?"),
        ("target-radios = 1", "did you mean 'target-radius'?"),
        ("most = 1", "'most' is not an option of"),
        ("config = 'c.toml'", "'config' is not an option of"),
        ("zzz = 1", "'zzz' is not an option of root show"),
        ("[show]\nsgima = 1", "did you mean 'sigma'?"),
        ("[shwo]\nsigma = 1", "[shwo] is not a command; did you mean 'show'?"),
        ("sigma = '0.25'", "expected sigma as a number, got '0.25'"),
        ("sigma = true", "expected sigma as a number, got True"),
        ("max = 1.5", "expected max as a whole number, got 1.5"),
        ("max = 'all'", "expected max as a whole number, got 'all'"),
        ("max = true", "expected max as a whole number, got True"),
        ("flip = 1", "expected flip as true or false, got 1"),
        ("name = 3", "expected name as a text, got 3"),
        ("set = 'a=1'", "expected set as a list, each a text, got 'a=1'"),
        ("set = [1]", "expected set as a list, each a text, got [1]"),
        ("sigma = 1979-05-27", "expected sigma as a number, got datetime.date(1979, 5, 27)"),
        ("sigma = ", "is not TOML"),
        ("sigma = " + "[" * 5000, "is not TOML"),
        ("sigma = 1\nsigma = 2", "is not TOML"),
    ],
)
def test_wrong_files(shown, text, words):
    assert words in shown(text, "net", code=2)


def test_files_that_cannot_be_read(cli, tmp_path):
    said = cli("train", "--config", tmp_path / "no.toml", code=2).err
    assert "No such file" in said
    assert "is not TOML" not in said
    assert "got a folder" in cli("train", "--config", tmp_path, code=2).err
    (tmp_path / "latin.toml").write_bytes(b'data = "\xe9"')
    said = cli("train", "--config", tmp_path / "latin.toml", code=2).err
    assert "is not TOML" in said
    assert len(said.splitlines()) == 1


def test_one_file_for_training_certification_and_prediction(cli, tmp_path):
    (tmp_path / "all.toml").write_text(
        f"""
        data = "digits"
        sigma = 0.25
        [train]
        arch = "small-cnn"
        epochs = 1
        batch-size = 128
        recipe = "smoothadv"
        set = ["steps=1"]
        out = "{tmp_path}/net"
        [certify]
        model = "{tmp_path}/net/last.safetensors"
        method = "fixed"
        n = 100
        rows = 96
        max = 4
        quiet = true
        out = "{tmp_path}/run"
        [predict]
        model = "{tmp_path}/net/last.safetensors"
        n = 100
        rows = 96
        max = 5
        format = "json"
        """
    )
    cli("train", "--config", tmp_path / "all.toml", "--seed", 3)
    said = load(tmp_path / "net" / "last.safetensors")[1]
    assert (said["recipe"]["steps"], said["sgd"]["batch_size"], said["seed"]) == (1, 128, 3)
    cli("certify", "--config", tmp_path / "all.toml", "--max", 3)
    run = read_run(tmp_path / "run")
    assert len(run) == 3
    assert (run.description["n"], run.description["sigma"], run.description["method"]) == (100, 0.25, "fixed")
    assert json.loads(cli("predict", "--config", tmp_path / "all.toml").out)["inputs"] == 5
    assert "nothing wrong" in cli("verify", tmp_path / "run", "--recount", 2).out


@pytest.mark.parametrize("command", ["train", "certify", "predict"])
def test_commands_that_take_it(command):
    assert "config" in [parameter.name for parameter in get_command(app).commands[command].params]


def test_numbers_that_are_typed_with_commas_may_be_a_list(cli, tmp_path):
    def certify(text):
        (tmp_path / "c.toml").write_text(text)
        asked = ("nets", "--data", "digits", "--sigma", 1, "--out", tmp_path / "run")
        return cli("certify", *asked, "--config", tmp_path / "c.toml", "--dry-run", code=2).err

    for text in ('domain = "1,0"', "domain = [1, 0]", "domain = [1.0, 0.0]"):
        assert "expected domain as two numbers, low < high, got 1.0,0.0" in certify(text)
    assert "low < high, got 1.0,0.0,2.0" in certify("domain = [1, 0, 2]")
    for text in ("domain = [true, false]", 'domain = ["a", "b"]', "domain = 5", "sigma = [1.0, 2.0]"):
        assert "low < high" not in (said := certify(text))
        assert "expected" in said
