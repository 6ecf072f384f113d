"""The stages of an experiment: commands, of which none may write anywhere but in its folder, nor run a file's code."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.models.loading import is_function

NAMED, OPTION = re.compile(r"[\w.+ -]+"), re.compile(r"--[a-z0-9-]+")
WRITTEN = ("--out", "--memory")
REFUSED = (
    "--force", "--config", "--help", "--ray-address",  # whose cluster would get the network, and run code here
    "--shard", "--dry-run", "--time-budget", "--no-save",  # which end well with less than a whole run
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One command; its name is unique, and `needs` names those that come before it.

    files: of the user's, which what it makes depends on.
    """

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def file_name(stage: str) -> str:
    """What the files of a stage are called, from its name."""
    return stage.replace(" ", "-")


def check_stages(file: Path, stages: Sequence[Stage]) -> None:
    """An error unless all stages can be run, each by itself. file: the experiment's."""
    names = [stage.name for stage in stages]
    marks = [file_name(name) for name in names]
    for name, mark in zip(names, marks, strict=True):
        if marks.count(mark) > 1:
            raise ArgumentError(f"{file}: expected each network once, got {name!r} twice: give one a name of its own")
    for stage in stages:
        _expect_own_folder(file, stage)
        for part in stage.command:
            if "\0" in part:
                raise ArgumentError(f"{file}: expected {stage.name!r} without the character 0, got {part!r}")
            if is_function(part.partition("=")[2] or part):
                raise ArgumentError(
                    f"{file}: expected no function in {stage.name!r}, as a file may not name code that is executed, "
                    f"got {part}: type it with anisocert certify"
                )
        for need in stage.needs:
            if need not in names:
                raise ArgumentError(f"{file}: expected {need!r} among the stages, which {stage.name!r} needs, got none")
    try:
        TopologicalSorter({stage.name: stage.needs for stage in stages}).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ArgumentError(f"{file}: expected stages of which none needs itself, got {circle}") from error


def _expect_own_folder(file: Path, stage: Stage) -> None:
    """An error unless all that a stage writes is in the experiment's folder, under names of its own."""
    if not NAMED.fullmatch(stage.name):
        raise ArgumentError(f"{file}: expected names of letters, digits, '.', '_' and '-', got {stage.name!r}")
    if {".", ".."} & set(stage.name.split()):  # whose folder would be another's
        raise ArgumentError(f"{file}: expected names of networks and methods in {stage.name!r}, got '.' or '..'")
    options = [part for part in stage.command if part.startswith("--")]
    refused = [option for option in options if not OPTION.fullmatch(option) or option in REFUSED]
    refused += [option for option in WRITTEN if options.count(option) > (stage.command[0] != "attack")]  # ours, once
    if refused:
        raise ArgumentError(
            f"{file}: expected options of anisocert {stage.command[0]} in {stage.name!r}, and none that says where to "
            f"write or compute, or does a part, got {refused[0]}"
        )
