"""What comes from outside, checked before it is believed: arrays, files, and the sizes that files declare.

A network sees float32. If `certify` rounded what `lookup` takes as it is, the two could disagree about one input: so an
input that float32 cannot hold is refused everywhere, and nobody rounds in silence.
"""

import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError

# What a compressed file may unpack to: this many bytes, or this many times its own size if that is more.
UNPACKED, RATIO = 1 << 30, 20
# A label, a note or metadata may claim any number of classes, and networks and tables are made for all of them.
MOST_CLASSES = 100_000
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


def exact_float32(name: str, x: Any) -> NDArray[np.float32]:
    """Array or tensor, on any device, as float32; an error where that changes a value or the unit is unclear."""
    try:
        if hasattr(x, "detach"):
            x = x.detach().cpu()
            x = (x.float() if x.is_floating_point() and x.element_size() < 4 else x).numpy()
        given = np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:  # lists of unequal length, sparse tensors
        raise ArgumentError(f"expected {name} as an array of numbers, got {type(x).__name__} ({error})") from error
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentError(f"expected {name} without a mask, got a masked array: fill it first, with x.filled(...)")
    if given.dtype.kind in "iub":
        raise ArgumentError(
            f"expected {name} as floats in the network's own units, got {given.dtype}: integers have no unit. For "
            "pixels of 0 to 255 and a network that takes 0 to 1, pass x.astype('float32') / 255"
        )
    if given.dtype.kind != "f":
        raise ArgumentError(f"expected {name} as an array of floats, got {given.dtype}")
    with np.errstate(over="ignore"):
        narrow = given.astype(np.float32)
    if not bool(np.isfinite(narrow).all()):
        raise ArgumentError(f"expected finite {name}, got NaN, infinity or numbers beyond float32")
    if given.dtype.itemsize > 4 and not bool((narrow == given).all()):
        raise ArgumentError(
            f"expected {name} that float32 holds exactly, as the network sees it, got {given.dtype} that it would "
            "round: round it first, with numpy.asarray(x, 'float32'), and use that array everywhere"
        )
    return narrow


def regular_file(path: str | Path) -> Path:
    """The path of a regular file, links followed; an error for all else: a FIFO would hang, a device never end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArgumentError(f"expected a file at {path}, got none ({reason})") from error
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "a device")
        raise ArgumentError(f"expected a regular file at {path}, got {kind}")
    return Path(path)


def check_archive(path: Path) -> None:
    """An error if what a zip file (.npz, .pt) declares to hold is out of proportion to its size; damage is zipfile's.

    Members are stored or deflated, as numpy and torch write them; of other compressions nobody can bound what one step
    of reading unpacks.
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
