"""Rows stand side by side as one network's only if they are: each run names its network by a hash."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.evaluate.comparison import data_name
from anisocert.runs import StoredRun, read_run
from first import FILE, Measured


def expect_one_network(results: Path, lines: Sequence[Measured] = ()) -> None:
    """An error if the runs in the folder of one network, or the lines of a stranger beside them, are of several.

    Folders of results of their own are not looked into: their networks may have the same names.
    """
    for folder in sorted({file.parents[1] for file in results.glob("*/*/run.json")}):
        runs = [read_run(file.parent) for file in sorted(folder.glob("*/run.json"))]
        _expect_one(folder, [*_named(runs), *_beside(runs, folder, lines)])


def _named(runs: Iterable[StoredRun]) -> list[tuple[str, str]]:
    """(name, hash) of runs that tell their network's."""
    return [(run.folder.name, run.model_hash) for run in runs if run.model_hash is not None]


def _beside(runs: Sequence[StoredRun], folder: Path, lines: Sequence[Measured]) -> list[tuple[str, str]]:
    """The same of the measurements that are drawn beside these runs."""
    data = {data_name(run) for run in runs}
    same = (line for line in lines if line.data in data and folder.name == f"{line.recipe}-{line.sigma:g}")
    return [(FILE, model_hash) for model_hash in dict.fromkeys(line.model_hash for line in same)]


def _expect_one(folder: Path, named: Iterable[tuple[str, str]]) -> None:
    networks: dict[str, list[str]] = {}
    for name, model_hash in named:
        networks.setdefault(model_hash[:12], []).append(name)
    if len(networks) > 1:
        parts = "; ".join(f"{', '.join(names)} of {model_hash}" for model_hash, names in networks.items())
        raise ArgumentError(f"expected runs of one network in {folder}, got {parts}: certify all of them with the same")
