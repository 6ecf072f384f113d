"""Runs side by side: those of one data set and one norm, on the inputs that all of them have."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError
from anisocert.evaluate.labels import algorithm, labels, recipe_of
from anisocert.evaluate.protection import ALSO_SEEN, UNSEEN
from anisocert.evaluate.results import UNKNOWN, Results, aligned, numbers, results_of
from anisocert.evaluate.sigmas import added_alphas
from anisocert.optimize import CODED

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

ORDER = ("fixed", "average", "isotropic", "anisotropic")


@dataclass(frozen=True, eq=False)
class Entry:
    """A run, and its results on the shared inputs. after: None where it has been through no memory.

    again: an entry before this one has the same certificates, and only the memory differs.
    """

    run: "StoredRun"
    label: str
    before: Results
    after: Results | None
    recipe: str | None
    again: bool = False

    @property
    def results(self) -> list[Results]:
        """What this run adds to those before it: its results before a memory, if they are new, and after it."""
        return [results for results in (None if self.again else self.before, self.after) if results is not None]

    @property
    def binding(self) -> Results:
        """What binds a deployed system, as far as the run knows: its results after a memory, if there was one."""
        return self.before if self.after is None or self.before.stage == "not needed" else self.after

    @property
    def unbound(self) -> bool:
        """Whether the noise depends on the input and no memory makes one system of it."""
        return self.before.stage == "before" and self.after is None

    @property
    def shared(self) -> NDArray[np.bool_]:
        """Which of the run's rows are of shared inputs."""
        return np.isin(numbers(self.run, "idx"), self.before.ids)

    @property
    def seen(self) -> bool:
        """Whether the network was trained on the inputs, as far as the run knows."""
        return bool(self.run.said("trained_on"))

    @property
    def others(self) -> str:
        """What intervals are about: inputs like these."""
        return ALSO_SEEN if self.seen else UNSEEN


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
        return self.entries[0].run.noise.symbol

    @property
    def sigmas(self) -> list[float]:
        """The different noise levels."""
        return sorted({e.before.sigma for e in self.entries if e.before.sigma is not None})

    @property
    def others(self) -> str:
        """What intervals of these runs are about."""
        return " or ".join(dict.fromkeys(entry.others for entry in self.entries))

    def stages(self) -> Iterator[Results]:
        """All different results: of each run before its memory, then after it."""
        for entry in self.entries:
            yield from entry.results

    def families(self, least: int = 2) -> Iterator[list[Results]]:
        """Results of one label and promise at the noise levels it has, each once; those with `least` or more."""
        groups: dict[tuple[str, str], list[Results]] = {}
        for results in self.stages():
            if results.sigma is not None:
                groups.setdefault((results.label, results.protects), []).append(results)
        for family in groups.values():
            if len(family) >= least:
                yield family

    def beside(self, entry: Entry, method: str) -> Entry | None:
        """The run of a method at the same noise level, and not of another network; of several, the first."""
        matches = (e for e in self.entries if (e.before.method, e.before.sigma) == (method, entry.before.sigma))
        return next((e for e in matches if not _other_network(e, entry)), None)

    @property
    def mixed(self) -> bool:
        """Whether runs at one noise level are known to be of several networks, which no method is to blame for."""
        pairs = itertools.combinations(self.entries, 2)
        return any(one.before.sigma == other.before.sigma and _other_network(one, other) for one, other in pairs)

    @property
    def recipe(self) -> str | None:
        """How the networks were trained; of several recipes, the first."""
        return self.entries[0].recipe

    @property
    def contenders(self) -> list[Entry]:
        """The runs of the method that shapes its noise most, decided without looking at their certificates."""
        most = max(self.entries, key=lambda entry: _rank(entry.before.method))
        return [entry for entry in self.entries if entry.before.method == most.before.method]

    @property
    def headline(self) -> Entry:
        """The run that is told first: of the contenders the one with the largest mean radius on these inputs."""
        return max(self.contenders, key=lambda entry: entry.binding.mean())

    @property
    def headline_alpha(self) -> float | None:
        """The probability that a given input's certificate in the headline run is wrong; None if not known.

        Any contender might have been chosen, so their alphas add up; those with the same certificates count once.
        """
        return added_alphas([entry.before for entry in self.contenders if not entry.again])


def _other_network(one: Entry, other: Entry) -> bool:
    """Whether two runs are known to be of different networks; the methods of a codebook have one of their own.

    A network in another precision, or on another grid, is another one: the hash says so, and so do its votes.
    """
    hashes = one.run.model_hash, other.run.model_hash
    return None not in hashes and hashes[0] != hashes[1] and not {one.before.method, other.before.method} & {*CODED}


def compare(runs: Sequence["StoredRun"]) -> tuple[Comparison, ...]:
    """Any number of runs, grouped by data set and norm; within a group on the inputs that all of them have."""
    if not runs:
        raise ArgumentError("expected at least one run, got none")
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault((data_name(run), str(run.said("norm") or UNKNOWN)), []).append(run)
    return tuple(_comparison(data, norm, group) for (data, norm), group in groups.items())


def data_name(run: "StoredRun") -> str:
    """The data set's name: of a path, its last part."""
    return Path(str(run.said("data") or UNKNOWN)).name


def _comparison(data: str, norm: str, runs: Sequence["StoredRun"]) -> Comparison:
    names, symbol = labels(runs), runs[0].noise.symbol
    befores = [results_of(run, label=label) for run, label in zip(runs, names, strict=True)]
    afters = [
        results_of(run, memory=True, label=label) if run.has_memory else None
        for run, label in zip(runs, names, strict=True)
    ]
    _expect_same_inputs(data, runs, befores)
    shared_ids = aligned(befores)[0].ids
    all_ids = reduce(np.union1d, [before.ids for before in befores])
    several = len({before.sigma for before in befores}) > 1
    entries = [
        Entry(
            run, f"{before.label} {symbol}={before.sigma:g}" if several and before.sigma is not None else before.label,
            before.only(shared_ids), None if after is None else after.only(shared_ids), recipe_of(run),
        )
        for run, before, after in zip(runs, befores, afters, strict=True)
    ]  # fmt: skip
    entries.sort(key=lambda e: (_rank(e.before.method), e.before.sigma or 0.0, e.before.label))
    repeated = [_is_among(entry, entries[:place]) for place, entry in enumerate(entries)]
    entries = [replace(entry, again=again) for entry, again in zip(entries, repeated, strict=True)]
    return Comparison(data, norm, tuple(entries), len(all_ids) - len(shared_ids))


def _expect_same_inputs(data: str, runs: Sequence["StoredRun"], befores: Sequence[Results]) -> None:
    """An error if examples with the same ids are known to be others: data of one name may lie in several places."""
    first: dict[bytes, StoredRun] = {}
    for run, before in zip(runs, befores, strict=True):
        if (data_hash := run.said("data_hash")) is None:
            continue
        other = first.setdefault(before.ids.tobytes(), run)
        if other.said("data_hash") != data_hash:
            raise ArgumentError(
                f"expected runs on the same inputs, as all are of data called {data}, got others with the same ids in "
                f"{other.folder} and {run.folder}: compare runs on one of them"
            )


def _is_among(entry: Entry, others: Sequence[Entry]) -> bool:
    """Whether one of the others holds the same certificates: one run that went through several memories."""
    return entry.after is not None and any(
        other.after is not None
        and other.before.sigma == entry.before.sigma
        and other.run.model_hash == entry.run.model_hash
        and algorithm(other.run) == algorithm(entry.run)
        and _same(other.before, entry.before)
        for other in others
    )


def _same(one: Results, other: Results) -> bool:
    names = ("ids", "prediction", "radius", "proxy_radius")
    return all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names)


def _rank(method: str) -> int:
    return ORDER.index(method if method in ORDER else "isotropic")
