"""Thetas as they are stored: where a search found no better shape than a ball, one number stands for all."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError
from anisocert.runs.files import WrongFileError, opened

MOST_VALUES = 1 << 24  # of an input; what `run.json` says about its shape is anybody's word
MOST_HEADER_BYTES = 100_000_000  # as safetensors itself allows
MOST_AXES = 32  # as every version of numpy allows

Theta = NDArray[np.float32]


def packed(theta: Theta) -> Theta:
    """The array to store: of shape `1 x 1 x ...` for a theta of several axes that is one number throughout."""
    theta = np.atleast_1d(theta)
    if theta.ndim < 2 or not bool((theta == theta.flat[0]).all()):
        return theta
    return theta.ravel()[:1].reshape((1,) * theta.ndim).copy()


def unpacked(stored: Theta, shape: Any) -> Theta:
    """A scalar, or an array of the input's shape that takes no more memory than is stored. shape: what the run says.

    If that is no shape of an input, one number stays a scalar, which is the same noise.
    """
    if stored.size > 1:
        return stored
    sizes = tuple(shape) if isinstance(shape, list | tuple) else ()
    whole = all(type(size) is int and 0 < size <= MOST_VALUES for size in sizes)
    if stored.ndim > 1 and stored.ndim == len(sizes) and whole and math.prod(sizes) <= MOST_VALUES:
        return np.broadcast_to(stored, sizes)
    return stored.reshape(())


class _Place(NamedTuple):
    file: str
    start: int
    shape: tuple[int, ...]


class Thetas(Mapping[int, Theta]):
    """Theta of each example id: a scalar, or of the input's shape. Each is read when it is asked for.

    All of a run's may be too many for the memory. safetensors reads whole files, or opens one by its name, where by
    then a link may be: so headers are read here.

    Args:
        folder: of the run.
        names: its files of thetas.
        shape: of an input, as the run says.
    """

    def __init__(self, folder: Path, names: Iterable[str], shape: Any) -> None:
        self._folder, self._shape = folder, shape
        self._places: dict[int, _Place] = {}
        for name in names:
            with opened(folder, name) as file:
                try:
                    for number, start, stored in entries(file):
                        if number in self._places:
                            raise ArgumentError(f"cannot be read: expected one theta of example {number}, got two")
                        self._places[number] = _Place(name, start, stored)
                except ArgumentError as error:
                    raise WrongFileError(folder, name, str(error)) from error

    def __getitem__(self, number: int) -> Theta:
        name, start, shape = self._places[number]
        stored = np.empty(shape, np.dtype("<f4"))
        with opened(self._folder, name) as file:
            file.seek(start)
            if file.readinto(stored.reshape(-1).view(np.uint8).data) != stored.nbytes:
                raise WrongFileError(self._folder, name, "has become shorter while it was read")
        return unpacked(stored, self._shape)

    def __contains__(self, number: object) -> bool:
        return number in self._places  # without reading it

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def entries(file: BufferedReader) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(example id, where its theta starts, shape), from the header of an open safetensors file."""
    length = int.from_bytes(file.read(8), "little")
    start, size = 8 + length, os.fstat(file.fileno()).st_size
    if start > min(size, MOST_HEADER_BYTES):
        raise ArgumentError(f"cannot be read: {size:,} bytes claim to hold a header of {length:,}")
    try:
        header = json.loads(file.read(length))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        claims = [
            (name, entry["dtype"], (*entry["shape"],), (*entry["data_offsets"],)) for name, entry in tensors.items()
        ]
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ArgumentError(f"cannot be read: {type(error).__name__} in its header") from error
    for name, kind, shape, ends in claims:
        if not (len(name) < 20 and name.isascii() and name.isdigit() and name == str(int(name))):
            raise ArgumentError(f"cannot be read: expected a theta by the id of an example, got {name[:40]!r}")
        whole = all(type(number) is int and number >= 0 for number in (*shape, *ends)) and len(shape) <= MOST_AXES
        if not whole or len(ends) != 2 or kind != "F32" or not 0 < 4 * math.prod(shape) == ends[1] - ends[0]:
            raise ArgumentError(f"cannot be read: expected theta of example {name} in float32, got something else")
        if start + ends[1] > size:
            raise ArgumentError(f"cannot be read: expected all of theta of example {name}, got {size:,} bytes")
        yield int(name), start + ends[0], shape
