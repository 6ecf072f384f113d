"""Reading numpy's files: headers first, so that no array is larger than the bytes it is stored in.

numpy itself trusts a header's shape, and allocates memory for it before it reads.
"""

import math
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from anisocert.errors import ArgumentError
from anisocert.inputs import check_archive, opened_regular, regular_file

PIECE = 1 << 20  # bytes


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Make an error that names the file of whatever numpy, zipfile or zlib raise where it is damaged."""
    try:
        yield
    except ArgumentError:
        raise
    except Exception as error:
        raise ArgumentError(f"expected a whole numpy file at {path}, of plain numbers, got: {error}") from error


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    with _named(path):
        check_archive(regular_file(path))
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]


def read_npz(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """The named arrays, as far as an .npz file has them; others are not read."""
    available = set(npz_names(path))
    arrays = {}
    with _named(path), zipfile.ZipFile(path) as archive:
        for name in names:
            if name in available:
                info = archive.getinfo(f"{name}.npy")
                with archive.open(info) as file:
                    arrays[name] = _array(file, info.file_size, name)
    return arrays


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an .npy file."""
    with _named(path), opened_regular(path) as file:
        return _array(file, path.stat().st_size)


def map_npy(path: Path) -> NDArray[Any]:
    """The array of an .npy file, mapped: its bytes are read where they are used. Writing to it changes no file."""
    with _named(path), opened_regular(path) as file:
        shape, fortran, dtype = _header(file, path.stat().st_size)
        return np.memmap(path, dtype, "c", file.tell(), shape, "F" if fortran else "C")


def _header(file: IO[bytes], size: int, name: str = "it") -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of the array in `size` bytes, which it fills. name: what it is called in errors."""
    version = npy.read_magic(file)
    if version != (1, 0):  # later ones hold structures; their headers alone may declare gigabytes
        raise ValueError(f"format {version[0]}.{version[1]}, where plain arrays have 1.0")
    shape, fortran, dtype = npy.read_array_header_1_0(file)
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None or dtype.itemsize == 0:
        remedy = f": save {name}.astype(...) of numbers, or texts, of one type" if dtype.hasobject else ""
        raise ValueError(f"elements {dtype} in {name}, which are not plain numbers{remedy}")
    needed, available = math.prod(shape) * dtype.itemsize, size - file.tell()
    if min(shape, default=0) < 0 or needed != available:
        raise ValueError(f"{available} bytes for {dtype} of shape {shape}")
    return shape, fortran, dtype


def _array(file: IO[bytes], size: int, name: str = "it") -> NDArray[Any]:
    shape, fortran, dtype = _header(file, size, name)
    needed = math.prod(shape) * dtype.itemsize
    array = np.empty(math.prod(shape), dtype)
    target = array.view(np.uint8)
    for start in range(0, needed, PIECE):
        piece = file.read(min(PIECE, needed - start))
        target[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
        if len(piece) < min(PIECE, needed - start):
            raise ValueError(f"{start + len(piece)} of {needed} bytes")
    return array.reshape(shape, order="F" if fortran else "C")


def inputs_by_id(path: Path) -> dict[int, NDArray[Any]]:
    """Inputs by id from an .npz file; ids default to 0, 1, ..."""
    if path.suffix != ".npz":
        raise ArgumentError(f"expected --inputs as an .npz file, got {path}")
    arrays = read_npz(path, ("x", "ids"))
    if "x" not in arrays:
        raise ArgumentError(f"expected an array x in {path}, got {', '.join(npz_names(path)) or 'nothing'}")
    x = arrays["x"]
    ids = arrays.get("ids", np.arange(len(np.atleast_1d(x))))
    if x.dtype.kind != "f" or ids.shape != x.shape[:1] or ids.dtype.kind not in "iu":
        raise ArgumentError(
            f"expected x as floats, as the network sees them, and one id each in {path}, got {x.dtype} of shape "
            f"{x.shape} and ids of shape {ids.shape}"
        )
    return dict(zip(ids.tolist(), x, strict=True))
