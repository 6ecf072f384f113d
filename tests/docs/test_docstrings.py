"""`help` explains every argument of every public name."""

import inspect
import re

import pytest

import anisocert as ac

ROOMS = ("bounds", "geometry")
NAMES = [name for name in ac.__all__ if name not in ROOMS and name != "AnisocertError"]


def described(text):
    """The arguments that a docstring's list explains."""
    part = re.search(r"^ *Args:\n(.*?)(?=^ {0,8}\w+:$|\Z)", text, re.MULTILINE | re.DOTALL)
    return set() if part is None else set(re.findall(r"^\s+(\w+): \S", part.group(1), re.MULTILINE))


def function(name):
    """What is called under a public name: two of them are rooms too."""
    found = getattr(ac, name)
    return getattr(found, name) if inspect.ismodule(found) else found


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_explained(name):
    thing = function(name)
    assert inspect.signature(getattr(ac, name)) == inspect.signature(thing)
    arguments = set(inspect.signature(thing).parameters) - {"self"}
    assert described(inspect.getdoc(thing) or "") == arguments


@pytest.mark.parametrize("name", ["open", "answer", "answers", "admit", "admit_all", "lookup"])
def test_methods_are_explained(name):
    home = ac.System if hasattr(ac.System, name) else ac.Memory
    assert len(inspect.getdoc(getattr(home, name)).split()) > 10
