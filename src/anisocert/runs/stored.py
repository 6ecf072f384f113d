"""A finished run, read back: the one reader of what it says, its rows and thetas, and what it was made with.

A run may come from someone else. Reading it executes nothing that it names: its network and data come from files,
and a function (`package.module:function`) only from the user who types it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from anisocert.certificate import ABSTAIN, COUNTS, Certificate
from anisocert.data import CATALOG, Dataset, load
from anisocert.data.dataset import as_float
from anisocert.engine import Network
from anisocert.engine.devices import devices_of
from anisocert.errors import ArgumentError, ModelError
from anisocert.geometry import Region
from anisocert.models.loading import is_function
from anisocert.optimize import FOR_EVERYONE
from anisocert.runs._said import Said
from anisocert.runs.attacked import AttackedFirst
from anisocert.runs.attacked_file import foreign, read_attacked
from anisocert.runs.differences import same_network
from anisocert.runs.files import ATTACKED, TABLE, THETA, Contents, WrongFileError, read_bytes, sound
from anisocert.runs.loading import chosen, examples_hash, load_model
from anisocert.runs.rows import certificate_of, expect_sound, region_of, table_of, thetas_of
from anisocert.runs.thetas import unpacked


class NotTheRunsError(ArgumentError):
    """A network or data that the run was not made with."""


@dataclass(frozen=True, eq=False)
class StoredRun(Said):
    """A run folder whose files are those that `run.json` vouches for. table: one row per input, in order of id."""

    _data: dict[str, Dataset] = field(default_factory=dict, init=False, repr=False)
    _compared: set[str] = field(default_factory=set, init=False, repr=False)
    _moved: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def moved(self, **files: str | None) -> Self:
        """The run, whose codebook or selector are where the user types, if not None, instead of where it says."""
        self._moved.update({name: file for name, file in files.items() if file is not None})
        return self

    @property
    def has_memory(self) -> bool:
        """Whether the rows hold a memory's answers, in the columns `memory_*`."""
        return "memory_prediction" in self.table.column_names

    @property
    def answered(self) -> bool:
        """Whether the rows themselves are a memory's answers, with nothing known from before it; not so on disk."""
        return False

    @property
    def on_disk(self) -> bool:
        """Whether there is a folder, which can be verified."""
        return True

    @property
    def has_votes(self) -> bool:
        """Whether any row holds votes; imported results have none."""
        known = [name for name in COUNTS if name in self.table.column_names]
        return any(self.table[name].null_count < len(self) for name in known)

    def column(self, name: str) -> NDArray[Any]:
        """One value per input."""
        if name not in self.table.column_names:
            raise ArgumentError(f"expected a run with column {name!r}, got {self.folder} without it")
        return np.asarray(self.table[name].to_numpy(zero_copy_only=False))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, in order of id."""
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found

    def row(self, number: int) -> dict[str, Any]:
        """The row of the example with this id."""
        if number not in self._places:
            raise ArgumentError(f"expected the id of an example in {self.folder}, got {number}, which is not in it")
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
        found = read_attacked(self.folder)
        if what := foreign(self, found):
            raise WrongFileError(self.folder, ATTACKED, f"{what}: repeat anisocert attack --first, or remove the file")
        return found

    def promised(self, number: int) -> int:
        """The class that an example's region promises, after the memory if there is one; -1 without a region."""
        row = self.row(number)
        if not self.has_memory:
            return int(row["prediction"])
        return int(row["memory_prediction"]) if row["memory_radius"] > 0 else ABSTAIN

    @property
    def for_everyone(self) -> bool:
        """Whether one classifier answers all inputs, with no memory that changes its answers."""
        return self.said("method") in FOR_EVERYONE and not self.has_memory

    @cached_property
    def thetas(self) -> dict[int, NDArray[np.float32]]:
        """Theta of each example id: a scalar, or of the input's shape."""
        return {number: theta for part in self.theta_files() for number, theta in part.items()}

    def theta_files(self) -> Iterator[dict[int, NDArray[np.float32]]]:
        """The same file by file, as all may be too many for the memory."""
        for name in sorted(filter(THETA.fullmatch, self.description["files"])):
            content = read_bytes(self.folder, name)
            try:
                found = thetas_of(content)
            except ArgumentError as error:
                raise WrongFileError(self.folder, name, str(error)) from error
            shape = self.description.get("input_shape")
            yield {number: unpacked(stored, shape) for number, stored in found.items()}

    def region(self, number: int, x: NDArray[Any], theta: NDArray[np.float32] | None = None) -> Region | None:
        """What is certified about an example before any memory, around x; None where it abstains, or has no theta.

        theta: the example's, if it has been read already.
        """
        row, theta = self.row(number), self.thetas.get(number) if theta is None else theta
        if theta is None or row["prediction"] == ABSTAIN:
            return None
        return region_of({**row, "noise": row.get("noise") or self.noise.name}, theta, x)

    def certificate(self, number: int, x: NDArray[Any] | None) -> Certificate:
        """The certificate of an example. x: its input as the network saw it, since a run does not hold inputs."""
        theta = self.thetas.get(number)
        if x is None or theta is None:
            missing = "input" if x is None else "theta"
            raise ArgumentError(f"expected the {missing} of example {number}, which the run certifies, got none")
        if self.model_hash is None:
            raise ArgumentError(f"expected a run that names its network by model_hash, got {self.folder}")
        return certificate_of(self.row(number), theta, np.asarray(x), self.model_hash)

    def examples(self, ids: Sequence[int] | None = None, data: str | None = None, whole: bool = True) -> Dataset:
        """The run's examples, or those with some ids; an error if they are not exactly those it was made from.

        data: where they are, if not where the run says. whole: False trusts the data's name, as hashing thousands
        of image files takes long; then nothing may be concluded from the pixels.
        """
        said, name = self.description, data or self.description.get("data")
        if not isinstance(name, str):
            raise ArgumentError(f"expected a run that names its data, got {self.folder}, which does not")
        if data is None and name not in CATALOG and not Path(name).expanduser().exists():
            raise ArgumentError(
                f"expected the data of {self.folder} at {name}, where the run says, got nothing there: "
                "say where they are with --data"
            )
        if name not in self._data:  # several readers of one run ask for them
            self._data[name] = load(name, "train" if said.get("split") == "train" else "test", said.get("layout"))
        if said.get("data_hash") is None or not whole:
            return self._data[name].subset(ids=self.column("idx").tolist() if ids is None else ids)
        found = chosen(self.configuration, self._data[name])
        if name not in self._compared and examples_hash(found) != said["data_hash"]:
            raise NotTheRunsError(
                f"expected the examples that {self.folder} was made from, got others in {name}, or not all of them: "
                f"its data_hash is not that of {name}"
            )
        if isinstance(found.pixels, np.ndarray):  # image files may change before the next request
            self._compared.add(name)
        return found if ids is None else found.subset(ids=ids)

    def inputs(self, data: str | None = None) -> Callable[[int], NDArray[np.float32] | None]:
        """Returns the input of an example id, read on demand; None if there is none."""
        examples = self.examples(data=data)
        places = {number: place for place, number in enumerate(examples.ids.tolist())}

        def found(number: int) -> NDArray[np.float32] | None:
            at = places.get(number)
            return None if at is None else as_float(np.asarray(examples.pixels[np.array([at])]))[0]

        return found

    def network(
        self,
        model: str | None = None,
        denoise: str | None = None,
        device: str | None = None,
        same_kind: bool = True,
    ) -> Network:
        """The run's network, in the run's numerics; an error if it is a different one.

        model, denoise: as typed, see `module`. same_kind: only on a device of the kind that the run was made on.
        """
        c = self.configuration
        here = "cuda" if torch.cuda.is_available() else "cpu"
        kind = c.device if same_kind and c.device is not None else here
        where = torch.device(kind if device in (None, "auto") else devices_of(device)[0])
        if same_kind and c.device is not None and where.type != c.device:
            raise ArgumentError(
                f"expected a {c.device} device, on which the run's votes were drawn, got {where.type}: it draws other "
                "noise"
            )
        num_classes = c.num_classes or int(self.column("num_classes")[0])
        network = Network(self.module(model, denoise), num_classes, where, c.numerics, c.model_id)
        if not same_network(c, network):
            behind = denoise or c.denoise
            raise NotTheRunsError(
                f"expected the network that {self.folder} certifies, got a different network: {model or c.model}"
                + (f" behind the denoiser {behind}" if behind else "")
            )
        return network

    def module(self, model: str | None = None, denoise: str | None = None, gradients: bool | None = None) -> nn.Module:
        """What the run's network is made of, loaded from a file, or by functions that were typed.

        model, denoise: what the user typed; None: what the run says, which may be a file and never a function.
        gradients: whether it must give them; None: as the run needs it.
        """
        c = self.configuration
        source = self._file("model", c.model) if model is None else model
        # Networks of a codebook are one file with it.
        with_it = {"codebook": model} if model is not None and c.codebook == c.model else {}
        typed = {} if denoise is None else {"denoise": denoise}
        places = with_it | self._moved | typed
        parts: dict[str, Any] = {
            name: said and (places.get(name) or self._file(name, said)) for name, said in c.parts.items()
        }
        try:
            return load_model(replace(c, **parts | typed), source, gradients)[0]
        except SystemExit as error:  # a typed function's own code: its exit code is not the command's
            raise ModelError(f"expected a network from {source}, got an exit with code {error.code}") from error

    def _file(self, option: str, named: str) -> str:
        self._no_function(option, named)
        for path in (self.folder / named, Path(named)):  # as seen from its own folder, or from here
            if path.is_file():
                return str(path.resolve())  # absolute, so that no file's name can be taken for a function
        kind = {"codebook": "codebook", "denoise": "denoiser"}.get(option, "network")
        raise ArgumentError(
            f"expected a {kind} file at {named}, where the run says, got nothing there"
            + f": say where it is with --{option}"
        )

    def _no_function(self, option: str, said: str) -> None:
        """The one place where a run is kept from naming code."""
        if is_function(said):
            raise ArgumentError(
                f"expected --{option} with a function that you trust, because {self.folder} was made with {said}, and "
                f"a run may not name code that is executed; got none: read that code, then type --{option} {said}"
            )


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
