"""What a `run.json` says with another type than a run writes ends in a sentence, wherever a run is read."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from anisocert.cli.app import app
from anisocert.errors import AnisocertError, ArgumentError
from anisocert.runs.configuration import Configuration

WRONG = [
    {"versions": []},
    {"versions": "x"},
    {"versions": {"torch": ["a"]}},
    {"limit": ["a"]},
    {"limit": "a"},
    {"command": "\ud800"},
    {"command": ["\ud800"]},
    {"n0": "x"},
    {"ids": 5},
    {"seed": 1.5},
    {"paper": "yes"},
]


@pytest.mark.parametrize("changes", WRONG, ids=ascii)
@pytest.mark.parametrize("command", ["show", "report"])
def test_values_of_another_type(systems, tmp_path, changes, command, forge):
    run = shutil.copytree(systems / "own", tmp_path / "run")
    forge(run, **{"model": "none.safetensors"} | changes)
    arguments = {"show": ["show", str(run), "3"], "report": ["report", str(run), "--out", str(tmp_path / "r.html")]}
    done = CliRunner().invoke(app, arguments[command])
    assert done.exception is None or isinstance(done.exception, AnisocertError | SystemExit), done.exception


@pytest.mark.parametrize("changes", [one for one in WRONG if "command" not in one], ids=ascii)
def test_it_is_no_configuration(systems, changes):
    described = json.loads((systems / "own" / "run.json").read_text()) | {"model": "none.safetensors"}
    Configuration.from_dict(described)
    with pytest.raises(ArgumentError, match="expected"):
        Configuration.from_dict(described | changes)
