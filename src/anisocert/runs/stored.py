"""A finished run, read back: the one reader of what it says, its rows and thetas, and what it was made with."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN, COUNTS, Certificate
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.memory import KEPT
from anisocert.optimize import FOR_EVERYONE
from anisocert.runs._sources import Sources
from anisocert.runs.attacked import AttackedFirst
from anisocert.runs.attacked_file import foreign, read_attacked
from anisocert.runs.files import ATTACKED, TABLE, THETA, Contents, WrongFileError, sound
from anisocert.runs.rows import certificate_of, expect_shape, expect_sound, region_of, table_of
from anisocert.runs.thetas import Thetas


@dataclass(frozen=True, eq=False)
class StoredRun(Sources):
    """A run folder whose files are those that `run.json` vouches for. table: one row per input, in order of id.

    answered: whether the rows themselves are a memory's answers, with nothing known from before it; not so on disk.
    on_disk: whether there is a folder, which can be verified.
    """

    answered: bool = field(default=False, kw_only=True)
    on_disk: bool = field(default=True, kw_only=True)

    @property
    def has_memory(self) -> bool:
        """Whether the rows hold a memory's answers, in the columns `memory_*`."""
        return "memory_prediction" in self.table.column_names

    @property
    def has_votes(self) -> bool:
        """Whether any row holds votes; imported results have none."""
        columns = [name for name in COUNTS if name in self.table.column_names]
        return any(self.table[name].null_count < len(self) for name in columns)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, in order of id."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def row(self, number: int) -> dict[str, Any]:
        """The row of the example with this id."""
        if number not in self._places:
            first = ", ".join(map(str, list(self._places)[:3]))
            raise ArgumentError(
                f"expected the id of an example in {self.folder} ({first}, ...), got {number}, which is not in it"
            )
        return self.rows[self._places[number]]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {int(row["idx"]): place for place, row in enumerate(self.rows)}

    @cached_property
    def attacked(self) -> AttackedFirst | None:
        """What the run's system withstood from an adversary who comes first; None where that was not measured.

        An error if the file is not one of this run: of rows that a memory has answered since, or of another network.
        """
        if not os.path.lexists(self.folder / ATTACKED):
            return None
        attacked = read_attacked(self.folder)
        if fault := foreign(self, attacked):
            raise WrongFileError(self.folder, ATTACKED, f"{fault}: repeat anisocert attack --first, or remove the file")
        return attacked

    def promised(self, number: int) -> int:
        """The class that an example's region promises, by the memory if that binds the run; -1 without a region."""
        row = self.row(number)
        if not self.bound_by_memory:
            return int(row["prediction"])
        return int(row["memory_prediction"]) if row["memory_radius"] > 0 else ABSTAIN

    @property
    def for_everyone(self) -> bool:
        """Whether one classifier answers all inputs: what it certifies holds without a memory, and before any."""
        return self.said("method") in FOR_EVERYONE

    @property
    def bound_by_memory(self) -> bool:
        """Whether it is a memory that makes one system of the run's answers, and promises about them."""
        return self.has_memory and not self.for_everyone

    @cached_property
    def thetas(self) -> Mapping[int, NDArray[np.float32]]:
        """Theta of each example id: a scalar, or of the input's shape."""
        names = sorted(filter(THETA.fullmatch, self.description["files"]))
        return Thetas(self.folder, names, self.description.get("input_shape"))

    def region(self, number: int, x: NDArray[Any]) -> Region | None:
        """What is certified about an example before any memory, around x; None where it abstains, or has no theta."""
        row = self.row(number)
        if row["prediction"] == ABSTAIN or number not in self.thetas:
            return None
        expect_shape(row, self.thetas[number], x)
        return region_of({**row, "noise": row.get("noise") or self.noise.name}, self.thetas[number], x)

    def region_after_memory(self, number: int, x: NDArray[Any]) -> Region | None:
        """What the memory promises about an example, around x, as far as the row tells: of another region its ball."""
        row = self.row(number)
        if row["memory_note"] == KEPT:
            return self.region(number, x)
        if row["memory_prediction"] == ABSTAIN or not row["memory_radius"] > 0:
            return None
        return Region(x, row["memory_radius"], self.noise.norm)

    def certificate(self, number: int, x: NDArray[Any] | None) -> Certificate:
        """The certificate of an example. x: its input as the network saw it, since a run does not hold inputs."""
        theta = self.thetas.get(number)
        if x is None or theta is None:
            missing = "input" if x is None else "theta"
            raise ArgumentError(f"expected the {missing} of example {number}, which the run certifies, got none")
        if self.model_hash is None:
            raise ArgumentError(f"expected a run that names its network by model_hash, got {self.folder}")
        return certificate_of(self.row(number), theta, np.asarray(x), self.model_hash)


def read_run(folder: Path) -> StoredRun:
    """A finished run; an error if the folder holds none, or a file that the run did not write."""
    run = run_of(folder, sound(folder))
    try:
        expect_sound(run.table)
    except ArgumentError as error:
        raise WrongFileError(folder, TABLE, str(error)) from error
    return run


def run_of(folder: Path, contents: Contents) -> StoredRun:
    """A run whose files were checked."""
    assert contents.table is not None
    try:
        return StoredRun(folder, contents.description, table_of(contents.table))
    except ArgumentError as error:
        raise WrongFileError(folder, TABLE, str(error)) from error
