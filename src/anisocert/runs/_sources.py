"""What a run was made with, loaded again: its examples and its network.

A run may come from someone else. Loading executes nothing that it names: network and data come from files, and a
function (`package.module:function`) only from the user who types it.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from anisocert.data import CATALOG, Dataset, load
from anisocert.data.dataset import as_float
from anisocert.engine import Network
from anisocert.engine.devices import devices_of
from anisocert.errors import ArgumentError, ModelError
from anisocert.models.loading import is_function
from anisocert.runs._said import Said
from anisocert.runs.differences import same_network
from anisocert.runs.loading import arrays_hash, chosen, examples_hash, load_model


class NotTheRunsError(ArgumentError):
    """A network or data that the run was not made with."""


@dataclass(frozen=True, eq=False)
class Sources(Said):
    """A run whose examples and network can be loaded."""

    _data: dict[str, Dataset] = field(default_factory=dict, init=False, repr=False)
    _compared: set[str] = field(default_factory=set, init=False, repr=False)
    _moved: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def moved(self, **places: str | None) -> Self:
        """The run with its model, denoise, codebook, selector, data or memory where the user types, if not None.

        What is typed may be a function, or the URL of a memory; where a run says that it is, neither is followed.
        """
        run = copy(self)
        object.__setattr__(
            run, "_moved", self._moved | {name: place for name, place in places.items() if place is not None}
        )
        return run

    def typed(self, name: str) -> str | None:
        """Where one of these is, as the user has typed; None if nothing was typed."""
        return self._moved.get(name)

    def place(self, name: str) -> Any:
        """Where one of these is: as typed, else as the run says; None if nowhere."""
        return self._moved.get(name) or self.said(name)

    def examples(self, ids: Sequence[int] | None = None, whole: bool = True) -> Dataset:
        """The run's examples, or those with some ids; an error if they are not exactly those it was made from.

        whole: False trusts the data's name, as hashing thousands of image files takes long; then nothing may be
        concluded from the pixels.
        """
        description, name = self.description, self.place("data")
        if not isinstance(name, str):
            raise ArgumentError(f"expected a run that names its data, got {self.folder}, which does not")
        if "data" not in self._moved and name not in CATALOG and not Path(name).expanduser().exists():
            raise ArgumentError(
                f"expected the data of {self.folder} at {name}, where the run says, got nothing there: "
                "say where they are with --data"
            )
        if name not in self._data:  # several readers of one run ask for them
            self._data[name] = load(
                name, "train" if description.get("split") == "train" else "test", description.get("layout")
            )
        if description.get("data_hash") is None or not whole:
            return self._data[name].subset(ids=self.column("idx").tolist() if ids is None else ids)
        examples = chosen(self.configuration, self._data[name])
        if name not in self._compared and examples_hash(examples) != description["data_hash"]:
            raise NotTheRunsError(
                f"expected the examples that {self.folder} was made from, got others in {name}, or not all of them: "
                f"its data_hash is not that of {name}"
            )
        if isinstance(examples.pixels, np.ndarray):  # image files may change before the next request
            self._compared.add(name)
        return examples if ids is None else examples.subset(ids=ids)

    def inputs(self) -> Callable[[int], NDArray[np.float32] | None]:
        """A function that gives the input of an example id, read on demand; None if there is none."""
        examples = self.examples()
        places = {number: place for place, number in enumerate(examples.ids.tolist())}

        def input_of(number: int) -> NDArray[np.float32] | None:
            place = places.get(number)
            return None if place is None else as_float(np.asarray(examples.pixels[np.array([place])]))[0]

        return input_of

    def expect_inputs(self, inputs: Mapping[int, NDArray[Any]]) -> None:
        """An error if these, by id, are not what the run was made from, where its hash of that tells."""
        if (data_hash := self.description.get("data_hash")) is None:
            return
        ids = self.column("idx")
        order = np.argsort(ids)
        arrays = [inputs.get(number) for number in ids[order].tolist()]
        if not any(array is None for array in arrays):
            x = np.stack(arrays).astype(np.float32)  # type: ignore[arg-type]
            pixels = np.rint(255 * x.clip(0, 1)).astype(np.uint8)
            forms = [x, pixels] if np.array_equal(as_float(pixels), x) else [x]
            if data_hash in (arrays_hash(ids[order], self.column("label")[order], form) for form in forms):
                return
        raise NotTheRunsError(
            f"expected all inputs that {self.folder} was made from, each with its id, got others: its data_hash is not "
            "theirs; of image files it is that of the files, so leave --inputs out there"
        )

    @property
    def num_classes(self) -> int:
        """How many scores the run's network gives."""
        return self.configuration.num_classes or int(self.column("num_classes")[0])

    def network(self, device: str | None = None, same_kind: bool = True, gradients: bool | None = None) -> Network:
        """The run's network, in the run's numerics; an error if it is a different one.

        same_kind: only on a device of the kind that the run was made on. gradients: see `module`.
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
        network = Network(self.module(gradients), self.num_classes, where, c.numerics, c.model_id)
        if not same_network(c, network):
            denoiser = self.place("denoise")
            raise NotTheRunsError(
                f"expected the network that {self.folder} certifies, got a different network: {self.place('model')}"
                + (f" behind the denoiser {denoiser}" if denoiser else "")
            )
        return network

    def module(self, gradients: bool | None = None) -> nn.Module:
        """What the run's network is made of, loaded from files, or by functions that were typed.

        gradients: whether it must give them; None: as the run needs it.
        """
        c, typed = self.configuration, self._moved
        source = typed["model"] if "model" in typed else self._file("model", c.model)
        # Networks of a codebook are one file with it.
        places = ({"codebook": source} if "model" in typed and c.codebook == c.model else {}) | typed
        parts: dict[str, Any] = {
            name: place and (places.get(name) or self._file(name, place)) for name, place in c.parts.items()
        }
        parts |= {name: typed[name] for name in ("denoise",) if name in typed}  # also where the run had none
        try:
            return load_model(replace(c, **parts), source, gradients)[0]
        except SystemExit as error:  # a typed function's own code: its exit code is not the command's
            raise ModelError(f"expected a network from {source}, got an exit with code {error.code}") from error

    def _file(self, option: str, place: str) -> str:
        self._no_function(option, place)
        for path in (self.folder / place, Path(place)):  # as seen from its own folder, or from here
            if path.is_file():
                return str(path.resolve())  # absolute, so that no file's name can be taken for a function
        kind = {"codebook": "codebook", "denoise": "denoiser"}.get(option, "network")
        raise ArgumentError(
            f"expected a {kind} file at {place}, where the run says, got nothing there: say where it is with --{option}"
        )

    def _no_function(self, option: str, place: str) -> None:
        """The one place where a run is kept from naming code."""
        if is_function(place):
            raise ArgumentError(
                f"expected --{option} with a function that you trust, because {self.folder} was made with {place}, and "
                f"a run may not name code that is executed; got none: read that code, then type --{option} {place}"
            )
