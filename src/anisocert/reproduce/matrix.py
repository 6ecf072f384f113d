"""An experiment's stages: which networks are trained, and how each of them is certified.

data = "cifar10"
[train]                          # options of `anisocert train`, for every network
arch = "resnet18-paper"
[certify]                        # options of `anisocert certify`, for every run
skip = 20
[methods.ours]                   # one run per network; its own options
method = "anisotropic"
memory = true                    # through a memory of its own
[methods.average]
method = "average"
average-of = "ours"              # that run of the same network
[methods.ours-ball]
of = "ours"                      # the same certificates through another memory
memory-prefer = "ball"
[first]                          # options of `anisocert attack RUN --first`; radii in multiples of sigma
multiples = [1, 2, 4]
max = 250
[[networks]]
recipe = "cohen"
sigma = [0.25, 0.5]              # one network per value
train = { epochs = 30 }          # what is special about these networks
methods.ours = { max = 100 }
methods.fixed-many = { method = "fixed", skip = 5 }    # a run that these alone have
only = ["ours", "fixed-many"]    # by these methods; default: all
first = ["ours"]                 # runs that are attacked
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anisocert.data import splits
from anisocert.errors import ArgumentError
from anisocert.inputs import read_toml
from anisocert.models.loading import is_function
from anisocert.options import fits, flags, words

Values = dict[str, Any]
TABLES = {"train": dict, "certify": dict, "methods": dict}
TOP = {"data": str, "networks": list | dict, "first": dict, **TABLES}
OF_NETWORKS: Values = {"recipe": str, "norm": str, "sigma": float | list[float], "name": str, **TABLES}
OF_NETWORKS |= {"only": list[str], "first": list[str]}


@dataclass(frozen=True)
class Stage:
    """One command; its name is unique, and `needs` names those that come before it."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()


def read_matrix(file: Path) -> list[Stage]:
    """The stages of an experiment. Their paths are relative to the folder that they will be run in."""
    said = read_toml(file)
    _expect(file, "the file", said, TOP, {"data", "methods", "networks"})
    splits(said["data"])  # an error if there is no such data
    if not said["networks"] or isinstance(said["networks"], dict):
        raise ArgumentError(f"{file}: expected networks as [[networks]], at least one, got {said['networks']!r}")
    stages = [stage for group in said["networks"] for stage in _networks(file, said, group)]
    names = [stage.name for stage in stages]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"{file}: expected each network once, got {name!r} twice: give one a name of its own")
    for stage in stages:
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
    return stages


def _networks(file: Path, said: Values, group: Values) -> Iterator[Stage]:
    """Training and runs of each noise level of one group."""
    _expect(file, "networks", group, OF_NETWORKS, {"recipe", "sigma"})
    sigmas = group["sigma"] if isinstance(group["sigma"], list) else [group["sigma"]]
    if not sigmas:
        raise ArgumentError(f"{file}: expected sigma in networks, at least one, got none")
    for sigma in sigmas:
        network = f"{group.get('name', group['recipe'])}-{sigma:g}"
        data = Path(said["data"]).resolve() if Path(said["data"]).exists() else said["data"]
        shared = {"data": data, "norm": group.get("norm", "l2"), "sigma": sigma}
        weights = f"networks/{network}"
        options = shared | {"recipe": group["recipe"]} | said.get("train", {}) | group.get("train", {})
        train = Stage(f"train {network}", ("train", *flags(options), "--out", weights))
        yield train
        for method, its in _methods(file, said["methods"], group).items():
            memory, out = {"memory": f"memories/{network}-{method}.sqlite"}, ("--out", f"runs/{network}/{method}")
            if other := its.get("of"):
                options = {name: value for name, value in its.items() if name != "of"} | memory
                command = ("memory", "add", f"runs/{network}/{other}", *flags(options), *out)
                yield Stage(f"remember {network} {method}", command, (f"certify {network} {other}",))
                continue
            options = shared | said.get("certify", {}) | group.get("certify", {}) | its
            needs = [train.name]
            if options.pop("memory", False):
                options |= memory
            if other := options.get("average-of"):
                needs.append(f"certify {network} {other}")
                options["average-of"] = f"runs/{network}/{other}"
            command = ("certify", f"{weights}/last.safetensors", *flags(options), *out)
            yield Stage(f"certify {network} {method}", command, tuple(needs))
        for method in group.get("first", ()):
            yield _attack(file, said.get("first", {}), network, method, sigma)


def _methods(file: Path, common: Values, group: Values) -> dict[str, Values]:
    """By which methods a group is certified: those of all networks, or some of them, with what is special, and own."""
    special = group.get("methods", {})
    for method, its in (common | special).items():
        _expect_table(file, f"methods.{method}{' in networks' if method in special else ''}", its)
        if method not in common and not {"method", "of"} & set(its):
            raise ArgumentError(
                f"{file}: expected methods in {', '.join(common)}, or a new one that says its method, got {method!r}"
            )
    found = {name: common.get(name, {}) | special.get(name, {}) for name in (*common, *special)}
    if unknown := set(group.get("only", ())) - set(found):
        raise ArgumentError(f"{file}: expected only in networks among {', '.join(found)}, got {sorted(unknown)[0]!r}")
    return {name: its for name, its in found.items() if name in group.get("only", found)}


def _attack(file: Path, said: Values, network: str, method: str, sigma: float) -> Stage:
    """What a stranger who comes first leaves: at the same radii for every method."""
    multiples = said.get("multiples", [])
    if not fits(multiples, list[float]):
        raise ArgumentError(f"{file}: expected multiples in first as a list, each a number, got {multiples!r}")
    options = {name: value for name, value in said.items() if name != "multiples"}
    radii = [f"{one * sigma:g}" for one in multiples]
    command = ("attack", f"runs/{network}/{method}", "--first", *flags({"radius": radii} | options))
    return Stage(f"attack {network} {method}", command, (f"certify {network} {method}",))


def _expect_table(file: Path, where: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ArgumentError(f"{file}: expected {where} as a table, got {value!r}")


def _expect(file: Path, where: str, table: Values, known: Values, needed: set[str]) -> None:
    _expect_table(file, where, table)
    if unknown := set(table) - set(known):
        raise ArgumentError(f"{file}: expected {', '.join(sorted(known))} in {where}, got {sorted(unknown)[0]!r}")
    if missing := needed - set(table):
        raise ArgumentError(f"{file}: expected {', '.join(sorted(missing))} in {where}, got none")
    for name, value in table.items():
        if not fits(value, known[name]):
            raise ArgumentError(f"{file}: expected {name} in {where} as {words(known[name])}, got {value!r}")
