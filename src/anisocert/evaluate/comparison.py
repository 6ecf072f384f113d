"""Runs side by side: those of one data set and one norm, on the inputs that all of them have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anisocert.errors import ArgumentError
from anisocert.evaluate.results import SAME_FOR_ALL, UNKNOWN, Results, Size, aligned, results_of, said

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

ORDER = ("fixed", "average", "isotropic", "anisotropic")


@dataclass(frozen=True, eq=False)
class Entry:
    """A run, and its results on the shared inputs. after: None where it has been through no memory."""

    run: "StoredRun"
    label: str
    before: Results
    after: Results | None
    recipe: str | None

    @property
    def binding(self) -> Results:
        """What binds a deployed system, as far as the run knows: the answers after a memory, if there was one."""
        return self.before if self.after is None or self.before.stage == "not needed" else self.after

    @property
    def unbound(self) -> bool:
        """Whether the noise depends on the input and no memory makes one system of it."""
        return self.before.stage == "before" and self.after is None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs on the same inputs in one norm, ordered by method and noise. left_out: inputs that not all runs have."""

    data: str
    norm: str
    entries: tuple[Entry, ...]
    left_out: int

    def __len__(self) -> int:
        return len(self.entries[0].before)

    @property
    def symbol(self) -> str:
        """What the field calls the noise's parameter."""
        return "λ" if self.norm == "l1" else "σ"

    @property
    def sigmas(self) -> list[float]:
        """The different noise levels."""
        return sorted({e.before.sigma for e in self.entries if e.before.sigma is not None})

    def stages(self) -> Iterator[Results]:
        """All results: of each run before its memory, then after it."""
        for entry in self.entries:
            yield entry.before
            if entry.after is not None:
                yield entry.after

    def families(self) -> Iterator[list[Results]]:
        """Results of one method, recipe and stage at several noise levels, each level once."""
        groups: dict[tuple[str, str | None, str], list[Results]] = {}
        for entry in self.entries:
            for one in (entry.before, entry.after):
                if one is not None and one.sigma is not None:
                    groups.setdefault((one.method, entry.recipe, one.stage), []).append(one)
        for family in groups.values():
            if len(family) > 1 and len({one.sigma for one in family}) == len(family):
                yield family

    @property
    def headline(self) -> Entry:
        """The run to speak of first: the method that shapes its noise most, at its best noise level."""
        most = max(self.entries, key=lambda entry: _rank(entry.before.method))
        same = [entry for entry in self.entries if entry.before.method == most.before.method]
        return max(same, key=lambda entry: entry.binding.mean())


def compare(runs: Sequence["StoredRun"]) -> tuple[Comparison, ...]:
    """Any number of runs, grouped by data set and norm; within a group on the inputs that all of them have."""
    if not runs:
        raise ArgumentError("expected at least one run, got none")
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault((data_name(run), str(said(run, "norm") or UNKNOWN)), []).append(run)
    return tuple(_comparison(data, norm, group) for (data, norm), group in groups.items())


def superset(results: Sequence[Results], size: Size = "radius") -> list[float]:
    """Of each, the share of inputs whose correct certificate is at least as large as that of all the others.

    Around one input a region contains a ball exactly if its radius is at least the ball's, so that against balls
    this is the share of certificates that contain all others (ANCER, Definition 1).
    """
    sizes = np.array([one.certified(size) for one in aligned(results)])
    return [float(share) for share in (sizes >= sizes.max(0)).mean(1)]


def data_name(run: "StoredRun") -> str:
    """The data set's name: of a path, its last part."""
    return Path(str(said(run, "data") or UNKNOWN)).name


def _comparison(data: str, norm: str, runs: Sequence["StoredRun"]) -> Comparison:
    labels, symbol = _labels(runs), "λ" if norm == "l1" else "σ"
    befores = [results_of(run, label=label) for run, label in zip(runs, labels, strict=True)]
    afters = [
        results_of(run, memory=True, label=label) if run.has_memory else None
        for run, label in zip(runs, labels, strict=True)
    ]
    shared = aligned(befores)[0].ids
    everything = reduce(np.union1d, [one.ids for one in befores])
    several = len({one.sigma for one in befores}) > 1
    entries = [
        Entry(
            run, f"{before.label} {symbol}={before.sigma:g}" if several and before.sigma is not None else before.label,
            before.only(shared), None if after is None else after.only(shared), _recipe(run),
        )
        for run, before, after in zip(runs, befores, afters, strict=True)
    ]  # fmt: skip
    entries.sort(key=lambda entry: (_rank(entry.before.method), entry.before.sigma or 0.0, entry.label))
    return Comparison(data, norm, tuple(entries), len(everything) - len(shared))


def _labels(runs: Sequence["StoredRun"]) -> list[str]:
    """Names that, with the noise level, tell the runs apart: the method, and the folder where that is not enough."""
    methods = [
        str(said(run, "method") or UNKNOWN) + (", as published" if run.description.get("paper") else "") for run in runs
    ]
    sigmas = [said(run, "sigma") for run in runs]
    for more in ("", "name", "path"):
        names = [
            f"{method} ({run.folder.name if more == 'name' else run.folder})" if more else method
            for method, run in zip(methods, runs, strict=True)
        ]
        if len(set(zip(names, sigmas, strict=True))) == len(runs):
            break
    return names


def _recipe(run: "StoredRun") -> str | None:
    """How the network was trained, if the run knows."""
    told = run.description.get("recipe")
    return str(told) if told else None


def _rank(method: str) -> int:
    return ORDER.index(method) if method in ORDER else len(SAME_FOR_ALL)
