"""What `make` installs: exactly pinned, by hash but for torch, and the same wherever it is said twice."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pinned(name: str) -> dict[str, list[str]]:
    """`package==version` -> its SHA-256 sums, of one of the files of pins."""
    text = re.sub(r"#.*", "", (ROOT / name).read_text()).replace("\\\n", " ")
    return {line.split()[0]: re.findall(r"--hash=sha256:([0-9a-f]{64})\b", line) for line in text.split("\n") if line}


@pytest.mark.parametrize("name", ["requirements/core.txt", "requirements/dev.txt"])
def test_every_package_is_pinned_by_hash(name):
    found = pinned(name)
    assert len(found) > 5
    for package, hashes in found.items():
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9.]*", package)
        assert hashes, f"{package} has no hash: make lock"


def test_what_the_wheel_needs_is_the_same_in_both():
    core, dev = pinned("requirements/core.txt"), pinned("requirements/dev.txt")
    assert core == {package: dev[package] for package in core}


def test_torch_is_pinned_and_nothing_else_is_without_a_hash():
    assert [package.split("==")[0] for package in pinned("constraints.txt")] == ["torch", "torchvision"]


def test_the_build_backend_is_pinned_to_what_is_installed_by_hash():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    backend = project["build-system"]["requires"]
    assert backend[0].startswith("hatchling==")
    assert set(backend) <= set(pinned("requirements/dev.txt"))
    assert backend[0] in project["project"]["optional-dependencies"]["dev"]
