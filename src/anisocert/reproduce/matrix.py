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
[[networks]]
name = "denoised"
recipe = "denoiser"
of = "cohen-0.25"                # in front of that network, or of the one in a file; "distillation" fine-tunes it
sigma = 0.5
at = [0.25, 0.5]                 # noise levels of the runs: sigma, unless told; [] for none
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from anisocert.data import splits
from anisocert.errors import ArgumentError
from anisocert.inputs import read_toml
from anisocert.options import fits, flags, words
from anisocert.reproduce._networks import Network, begun_with, data_files
from anisocert.reproduce.stages import Stage, check_stages

Values = dict[str, Any]
NUMBERS = float | list[float]
TABLES = {"train": dict, "certify": dict, "methods": dict}
TOP = {"data": str, "networks": list | dict, "first": dict, **TABLES}
OF_NETWORKS: Values = {"recipe": str, "norm": str, "sigma": NUMBERS, "name": str, "of": str, "at": NUMBERS, **TABLES}
OF_NETWORKS |= {"only": list[str], "first": list[str]}


def read_matrix(file: Path) -> list[Stage]:
    """The stages of an experiment. Their paths are relative to the folder that they will be run in."""
    matrix = read_toml(file)
    _expect(file, "the file", matrix, TOP, {"data", "methods", "networks"})
    splits(matrix["data"])  # an error if there is no such data
    if not matrix["networks"] or isinstance(matrix["networks"], dict):
        raise ArgumentError(f"{file}: expected networks as [[networks]], at least one, got {matrix['networks']!r}")
    networks: dict[str, Network] = {}
    stages = [stage for group in matrix["networks"] for stage in _networks(file, matrix, group, networks)]
    check_stages(file, stages)
    return stages


def _networks(file: Path, matrix: Values, group: Values, networks: dict[str, Network]) -> Iterator[Stage]:
    """The stages of one group. networks: those so far; these are added."""
    _expect(file, "networks", group, OF_NETWORKS, {"recipe", "sigma"})
    origin = begun_with(file, group, networks)
    files = data_files(matrix["data"]) + (() if origin is None else origin.files)
    for stage in _trained(file, matrix, group, origin, networks):
        yield replace(stage, files=files)


def _trained(
    file: Path, matrix: Values, group: Values, origin: Network | None, networks: dict[str, Network]
) -> Iterator[Stage]:
    """Training and runs of each noise level of one group, whose networks begin with another, if any."""
    data = Path(matrix["data"]).resolve() if Path(matrix["data"]).exists() else matrix["data"]
    shared = {"data": data, "norm": group.get("norm", "l2")}
    name, common = group.get("name", group["recipe"]), matrix.get("train", {})
    if origin is not None:  # which says what is built
        common = {option: value for option, value in common.items() if option != "arch"}
    for sigma in _levels(file, "sigma", group):
        network = f"{name}-{sigma:g}"
        own = {"sigma": sigma, "recipe": group["recipe"]} | (origin.given() if origin is not None else {})
        options = shared | own | common | group.get("train", {})
        needs = () if origin is None else origin.needs
        train = Stage(f"train {network}", ("train", *flags(options), "--out", f"networks/{network}"), needs)
        yield train
        networks[network] = Network.made(group["recipe"], f"networks/{network}/last.safetensors", origin, train.name)
        for level in _levels(file, "at", group) if "at" in group else [sigma]:
            runs = f"{name}-{level:g}"
            yield from _runs(file, matrix, group, runs, networks[network], shared | {"sigma": level})
            for method in group.get("first", ()):
                run = _made(runs, method, _methods(file, matrix["methods"], group))
                yield _attack(file, matrix.get("first", {}), runs, method, level, run)


def _runs(file: Path, matrix: Values, group: Values, name: str, network: Network, shared: Values) -> Iterator[Stage]:
    """One run per method. shared: the options of all."""
    if network.denoise is not None:
        shared = shared | {"denoise": network.denoise}
    methods = _methods(file, matrix["methods"], group)
    for method, own in methods.items():
        memory, out = {"memory": f"memories/{name}-{method}.sqlite"}, ("--out", f"runs/{name}/{method}")
        if source := own.get("of"):
            options = {option: value for option, value in own.items() if option != "of"} | memory
            command = ("memory", "add", f"runs/{name}/{source}", *flags(options), *out)
            yield Stage(_made(name, method, methods), command, (_made(name, source, methods),))
            continue
        options, needs = shared | matrix.get("certify", {}) | group.get("certify", {}) | own, list(network.needs)
        if options.pop("memory", False):
            options |= memory
        if source := options.get("average-of"):
            needs.append(_made(name, source, methods))
            options["average-of"] = f"runs/{name}/{source}"
        yield Stage(_made(name, method, methods), ("certify", network.weights, *flags(options), *out), tuple(needs))


def _made(name: str, method: str, methods: Values) -> str:
    """The stage that makes the run of a method."""
    return f"{'remember' if methods.get(method, {}).get('of') else 'certify'} {name} {method}"


def _methods(file: Path, common: Values, group: Values) -> dict[str, Values]:
    """By which methods a group is certified: those of all networks, or some of them, with what is special, and own."""
    special = group.get("methods", {})
    for method, options in (common | special).items():
        _expect_table(file, f"methods.{method}{' in networks' if method in special else ''}", options)
        if method not in common and not {"method", "of"} & set(options):
            raise ArgumentError(
                f"{file}: expected methods in {', '.join(common)}, or a new one that says its method, got {method!r}"
            )
    methods = {name: common.get(name, {}) | special.get(name, {}) for name in (*common, *special)}
    if unknown := set(group.get("only", ())) - set(methods):
        raise ArgumentError(f"{file}: expected only in networks among {', '.join(methods)}, got {sorted(unknown)[0]!r}")
    return {name: options for name, options in methods.items() if name in group.get("only", methods)}


def _attack(file: Path, first: Values, network: str, method: str, sigma: float, run: str) -> Stage:
    """What a stranger who comes first leaves: at the same radii for every method. run: the stage that makes it."""
    multiples = first.get("multiples", [])
    if not fits(multiples, list[float]) or not all(map(_is_finite, multiples)):
        raise ArgumentError(f"{file}: expected multiples in first as a list, each a number, got {multiples!r}")
    options = {name: value for name, value in first.items() if name != "multiples"}
    radii = [f"{multiple * sigma:g}" for multiple in multiples]
    command = ("attack", f"runs/{network}/{method}", "--first", *flags({"radius": radii} | options))
    return Stage(f"attack {network} {method}", command, (run,))


def _levels(file: Path, key: str, group: Values) -> list[float]:
    """Noise levels, one or several; none only of the runs."""
    levels = group[key] if isinstance(group[key], list) else [group[key]]
    if not levels and key == "sigma":
        raise ArgumentError(f"{file}: expected sigma in networks, at least one, got none")
    if not all(map(_is_finite, levels)):
        raise ArgumentError(f"{file}: expected finite numbers as {key} in networks, got {str(levels)[:100]}")
    return levels


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:  # of a whole number
        return False


def _expect_table(file: Path, where: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ArgumentError(f"{file}: expected {where} as a table, got {value!r}")


def _expect(file: Path, where: str, table: Values, kinds: Values, needed: set[str]) -> None:
    _expect_table(file, where, table)
    if unknown := set(table) - set(kinds):
        raise ArgumentError(f"{file}: expected {', '.join(sorted(kinds))} in {where}, got {sorted(unknown)[0]!r}")
    if missing := needed - set(table):
        raise ArgumentError(f"{file}: expected {', '.join(sorted(missing))} in {where}, got none")
    for name, value in table.items():
        if not fits(value, kinds[name]):
            raise ArgumentError(f"{file}: expected {name} in {where} as {words(kinds[name])}, got {value!r}")
