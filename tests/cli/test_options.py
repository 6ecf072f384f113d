"""Each option is declared once: the same sentence answers a wrong value wherever it was written."""

import re
from dataclasses import fields
from typing import Literal

import pytest
from typer.main import get_command

from anisocert.bounds import BOUNDS
from anisocert.cli.app import app
from anisocert.engine import Numerics
from anisocert.errors import ArgumentError
from anisocert.memory import POLICIES
from anisocert.optimize import CODED, METHODS, SELECTING
from anisocert.options import Computing, Options, fits, flags, words
from anisocert.runs import Configuration
from anisocert.train import RECIPES

ASKED = {"model": "net.safetensors", "data": "digits", "sigma": 0.25}
WRONG = [
    ("norm", "l3", "expected norm to be one of l2, l1, got 'l3'"),
    ("method", "best", f"expected method to be one of {', '.join(METHODS)}, got 'best'"),
    ("split", "all", "expected split to be one of train, test, got 'all'"),
    ("skip", 0, "expected skip >= 1, got 0"),
    ("max", -1, "expected max >= 1, got -1"),
    ("num_classes", 1, "expected num_classes >= 2, got 1"),
    ("iterations", 0, "expected iterations >= 1, got 0"),
    ("limit", float("nan"), "expected limit finite, got nan"),
    ("stop", "soon", "expected stop to be one of checkpoints, betting, got 'soon'"),
    (
        "layout",
        "mine",
        "expected layout to be one of cohen, salman, macer, flat, channels-last, channels-first, got 'mine'",
    ),
    ("alpha", 2.0, "expected alpha in (0, 1), got 2.0"),
    ("n", 0, "expected n in [1, 1000000000], got 0"),
    ("ids", "x", "expected ids as in 3,17,100-199, got 'x'"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG)
def test_one_sentence_from_everywhere(cli, tmp_path, name, value, sentence):
    with pytest.raises(ArgumentError) as in_python:
        Configuration(**ASKED, **{name: value})
    with pytest.raises(ArgumentError) as in_json:
        Configuration.from_dict(ASKED | {name: value})
    command = ("certify", "net.safetensors", "--data", "digits", "--sigma", 0.25, "--out", tmp_path / "run")
    flag = f"--{name.replace('_', '-')}"
    (tmp_path / "c.toml").write_text(f"{flag[2:]} = {value!r}")
    typed, in_toml = cli(*command, flag, value, code=2), cli(*command, "--config", tmp_path / "c.toml", code=2)
    assert str(in_python.value) == str(in_json.value) == sentence
    assert typed.err == in_toml.err == f"error: {sentence}\n"


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("n", "7", "a whole number"), ("n", 7.5, "a whole number"), ("n", True, "a whole number"),
        ("alpha", "a", "a number"), ("paper", 1, "true or false"), ("ids", 5, "a text"), ("model", None, "a text"),
        ("mean", ("a",), "a list, each a number"),
    ],
)  # fmt: skip
def test_a_value_of_another_type(name, value, kind):
    with pytest.raises(ArgumentError, match=f"^expected {name} as {kind}"):
        Configuration(**ASKED | {name: value})


def test_the_command_has_every_option_as_it_is_declared():
    command = get_command(app).commands["certify"]
    found = {parameter.name: parameter for parameter in command.params}
    for one in fields(Options):
        parameter = found[one.name]
        assert parameter.help == one.metadata["help"]
        assert parameter.required == (one.name in ("model", "data"))
        if one.name not in ASKED:
            assert parameter.default == one.default
            assert parameter.rich_help_panel == one.metadata.get("panel")
            assert parameter.opts == [f"--{one.name.replace('_', '-')}"]
            assert parameter.secondary_opts == []


@pytest.mark.parametrize(
    ("command", "option", "known"),
    [
        ("certify", "method", METHODS), ("certify", "bound", BOUNDS), ("certify", "memory_policy", POLICIES),
        ("certify", "codebook", CODED), ("certify", "selector", SELECTING), ("train", "recipe", RECIPES),
    ],
)  # fmt: skip
def test_help_names_all_that_is_known(command, option, known):
    """Help is printed before anything is imported, and so repeats these names."""
    (found,) = (one for one in get_command(app).commands[command].params if one.name == option)
    assert set(known) <= set(re.findall(r"[\w-]+", found.help))


def test_what_can_be_typed_of_the_numerics():
    assert [(one.name, one.default) for one in fields(Computing)] == [
        (one.name, one.default) for one in fields(Numerics)
    ]
    command = get_command(app).commands["predict"]
    found = {parameter.name: parameter for parameter in command.params}
    assert all(found[one.name].help == one.metadata["help"] for one in fields(Computing))
    assert (found["compile"].opts, found["compile"].secondary_opts) == (["--compile"], ["--no-compile"])


def test_types_in_words_and_values_of_them():
    assert words(float | list[float]) == "a number or a list, each a number"
    assert words(Literal["a"] | None) == "a text"
    assert fits(1, float)
    assert fits([1, 0.5], float | list[float])
    assert fits(None, int | None)
    assert fits("a", Literal["a"] | None)
    for value, kind in ((True, float), (1, bool), ("a\0", str), ("1", int), ([True], list[float]), (None, int)):
        assert not fits(value, kind)


def test_options_as_they_are_typed():
    typed = flags({"n": 5, "paper": True, "compile": False, "mean": (0.5, 0.25), "set": ["a=1", "b=2"], "ids": "3,4"})
    assert list(typed) == [
        "--n", "5", "--paper", "--no-compile", "--mean", "0.5,0.25", "--set", "a=1", "--set", "b=2", "--ids", "3,4",
    ]  # fmt: skip
