"""What comes from outside, checked before it is trusted: arrays, files, and the sizes that files declare.

A network sees float32. If `certify` rounded what `lookup` takes as it is, the two could disagree about one input: so an
input that float32 cannot hold is refused everywhere, and nothing is rounded silently.
"""

import errno
import hashlib
import os
import stat
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError

# What a compressed file may unpack to: this many bytes, or this many times its own size if that is more.
UNPACKED, RATIO = 1 << 30, 20
# A label, a note or metadata may claim any number of classes, and networks and tables are made for all of them.
MOST_CLASSES = 100_000
# Mean and standard deviation of each channel that the field normalises by: data sets suggest them, and networks have
# them built in.
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HASHED = 1 << 24  # bytes of an array that are copied at a time
OTHERS = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
# For os.open: never wait for the other end of a FIFO and, where the system supports it, never follow a link.
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = getattr(os, "O_DIRECTORY", 0)
USER = getattr(os, "geteuid", lambda: 0)  # on Windows, every file is of user 0
UNUSUAL = "is a link, or not a regular file"


class FileError(ArgumentError):
    """There is no regular file, or one that is too large. what: the fault, worded to follow the file's name."""

    def __init__(self, message: str, what: str) -> None:
        super().__init__(message)
        self.what = what


def exact_float32(name: str, x: Any) -> NDArray[np.float32]:
    """Array or tensor, on any device, as float32; an error if that changes a value or the unit is unclear."""
    tensor = hasattr(x, "detach")
    try:
        if tensor:
            x = x.detach().cpu()
            x = (x.float() if x.is_floating_point() and x.element_size() < 4 else x).numpy()
        array = np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:  # lists of unequal length, sparse tensors
        remedy = "" if tensor else ": pass the inputs alone, without labels, all of one shape, as one array"
        raise ArgumentError(
            f"expected {name} as an array of numbers, got {type(x).__name__} ({error}){remedy}"
        ) from error
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentError(f"expected {name} without a mask, got a masked array: fill it first, with x.filled(...)")
    if array.dtype.kind in "iub":
        floats = "x.float()" if tensor else "x.astype('float32')"
        pixels = f"integers have no unit. For pixels of 0 to 255 and a network that takes 0 to 1, pass {floats} / 255"
        raise ArgumentError(
            f"expected {name} as floats in the network's own units, got {array.dtype}: "
            f"{f'pass {floats}' if array.dtype.kind == 'b' else f'{pixels}, else {floats}'}"
        )
    if array.dtype.kind != "f":
        raise ArgumentError(f"expected {name} as an array of floats, got {_no_array(x, array.dtype)}")
    with np.errstate(over="ignore", invalid="ignore"):  # a NaN that signals is invalid
        narrow = array.astype(np.float32)
    if not bool(np.isfinite(narrow).all()):
        raise ArgumentError(f"expected finite {name}, got NaN, infinity or numbers beyond float32")
    if array.dtype.itemsize > 4 and not bool((narrow == array).all()):
        raise ArgumentError(
            f"expected {name} that float32 holds exactly, as the network sees it, got {array.dtype} that it would "
            "round: round it first, with numpy.asarray(x, 'float32'), and use that array everywhere"
        )
    return narrow


def expect_labels(labels: NDArray[np.int64], scores: int, where: str) -> None:
    """An error where labels name classes that a network gives no scores for. where: what the labels are of."""
    if (largest := int(labels.max())) >= scores:
        remedy = ": do labels start at 1?" if labels.min() == 1 else ""
        raise ArgumentError(
            f"expected labels 0 to {scores - 1} in {where}, as the network gives {scores} scores, got labels up to "
            f"{largest}{remedy}"
        )


def told(value: object) -> str:
    """A wrong value as errors quote it: what can be typed as it is, anything else by its type, as it may be large."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, str | bytes | Path | bool | int | float):
        return repr(value)
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" or name == "ndarray" else f"a {name}"


def _no_array(x: object, dtype: object) -> str:
    """What was given instead of an array, and how to get the array from it."""
    if isinstance(x, str | Path):
        return f"{told(x)}: read the inputs first, as in anisocert.data.load('digits').x"
    if hasattr(x, "ids") and hasattr(x, "x"):
        return f"{told(x)}: pass its inputs, data.x (and ids=data.ids)"
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):  # pandas
        return f"{told(x)} with columns that are no numbers: leave them out, or encode them"
    if hasattr(x, "batch_size") and hasattr(x, "dataset"):
        return f"{told(x)}: pass the inputs of a batch, with ids=... that no other batch has"
    if hasattr(x, "__next__"):
        return f"{told(x)}: collect what it gives first, with numpy.stack(list(x))"
    return str(dtype) if hasattr(x, "dtype") or isinstance(x, list | tuple) else told(x)


def regular_file(path: str | Path) -> Path:
    """The path of a regular file that can be read, links followed, for a library that opens it."""
    with opened_regular(path):
        return Path(path)


@contextmanager
def opened_regular(path: str | Path, most: int | None = None, below: Path | None = None) -> Iterator[BufferedReader]:
    """A regular file, open for reading: a FIFO would block, a device would never end.

    most: the most bytes it may have. below: a folder, possibly itself a link, inside which no link is followed.

    Raises:
        FileError: it is something else, or larger.
    """
    try:
        descriptor = os.open(path, READ) if below is None else _open_below(below, Path(path).relative_to(below))
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise _unopened(path, error) from error
    try:
        status = os.fstat(descriptor)
        if (kind := kind_of(status.st_mode)) is not None:
            raise FileError(f"expected a regular file at {path}, got {kind}", UNUSUAL)
        if most is not None and status.st_size > most:
            got = f"{status.st_size:,} bytes"
            raise FileError(
                f"expected at most {most:,} bytes in {path}, got {got}", f"has {got}, expected {most:,} at most"
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read_regular(path: str | Path, most: int, below: Path | None = None) -> bytes:
    """All that a regular file holds; see `opened_regular`."""
    with opened_regular(path, most, below) as file:
        return file.read()


def read_owned(path: str | Path, most: int, below: Path | None = None) -> tuple[bytes, int]:
    """What a file of this user's or root's holds, and what others may do to it; see `opened_regular`.

    That is the part of its mode which concerns them, 0 where the system has none.

    Raises:
        FileError: it is somebody else's, who may change it at will.
    """
    with opened_regular(path, most, below) as file:
        expect_owner(path, status := os.fstat(file.fileno()))
        return file.read(), status.st_mode & 0o077 if os.name == "posix" else 0


def expect_owner(path: str | Path, found: os.stat_result) -> None:
    """An error if a file belongs neither to this user nor to root, as far as the system tells."""
    if found.st_uid not in (0, user := USER()):
        raise FileError(
            f"expected {path} to belong to user {user}, who runs this, or to root, got a file of user "
            f"{found.st_uid}: give it to one of them with chown, or run this as its owner",
            "belongs to another user",
        )


def kind_of(mode: int) -> str | None:
    """What a file is, from its mode, in words; None for a regular one."""
    return None if stat.S_ISREG(mode) else OTHERS.get(stat.S_IFMT(mode), "a device")


def _unopened(path: str | Path, error: OSError | ValueError) -> FileError:
    code = error.errno if isinstance(error, OSError) else None
    reason = error.strerror if isinstance(error, OSError) else str(error)
    unusual = code in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
    what = UNUSUAL if unusual else "is missing" if code == errno.ENOENT else f"cannot be read: {error}"
    got = "one that cannot be read" if code == errno.EACCES else "none"
    return FileError(f"expected a file at {path}, got {got} ({reason})", what)


def _open_below(folder: Path, name: Path) -> int:
    """Open a file inside a folder, step by step, so that nobody can put a link in the way meanwhile."""
    if os.open not in os.supports_dir_fd:  # Windows
        if any((folder / step).is_symlink() for step in (name, *name.parents[:-1])):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(name))
        return os.open(folder / name, READ)
    *inner, last = name.parts
    place = os.open(folder, READ | FOLDER)
    try:
        for part in inner:
            outer, place = place, os.open(part, READ | NO_LINK | FOLDER, dir_fd=place)
            os.close(outer)
        return os.open(last, READ | NO_LINK, dir_fd=place)
    finally:
        os.close(place)


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with opened_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_values(digest: "hashlib._Hash", array: NDArray[Any]) -> None:
    """Add an array's bytes, in pieces: one that is mapped from a file, or not contiguous, is never copied whole."""
    rows = np.atleast_1d(array)
    step = max(1, HASHED * len(rows) // max(1, rows.nbytes))
    for start in range(0, len(rows), step):
        digest.update(np.ascontiguousarray(rows[start : start + step]).tobytes())


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    file = regular_file(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also of numbers with too many digits
        raise ArgumentError(f"{path} is not TOML: {error}") from error


def check_archive(path: Path) -> None:
    """An error if a zip file (.npz, .pt) declares content out of proportion to its size; zipfile reports damage.

    Members are stored or deflated, as numpy and torch write them; with other compressions, what one
    read unpacks cannot be bounded.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    size, total = path.stat().st_size, sum(member.file_size for member in members)
    if total > max(UNPACKED, RATIO * size):
        raise ArgumentError(
            f"expected {path}, {size:,} bytes, to unpack to at most {max(UNPACKED, RATIO * size):,}, got {total:,}: "
            "if that is right, write it uncompressed (numpy.savez)"
        )
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ArgumentError(
                f"expected stored or deflated members in {path}, got compression {member.compress_type} "
                f"in {member.filename!r}"
            )
