"""Images as arrays that are mapped into memory: decoded once, and read at the speed of the disk afterwards.

A folder with `data.json` and, per split, `x_SPLIT.npy` (`n x c x h x w`, uint8), `y_SPLIT.npy` and `ids_SPLIT.npy`.
Only the examples that a command works on are ever in memory. `preparing.lock` is held by the one process that writes.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from anisocert.data._folder_notes import printable
from anisocert.data._image_files import READERS
from anisocert.data.dataset import Dataset, Split
from anisocert.data.numpy_files import map_npy, read_npy
from anisocert.durable import TEMPORARY, locked, write_whole
from anisocert.errors import ArgumentError
from anisocert.inputs import read_regular

FILE = "data.json"
SPLITS: tuple[Split, ...] = ("train", "test")
LARGEST = 1 << 24  # bytes of data.json
FILES = frozenset({FILE, *(f"{name}_{split}.npy" for name in ("x", "y", "ids") for split in SPLITS)})
MORE = ": `anisocert data prepare imagenet FOLDER --test-every N --force` makes a train split, too"
LOCK, NEW = "preparing.lock", "preparing.part"  # NEW: a folder, until arrays are complete
PIECE = 64  # images that are decoded at a time, by each reader


@dataclass(frozen=True)
class Header:
    """What `data.json` says. padding, flip: what the field's training does; resize, crop: how images were made."""

    name: str
    num_classes: int
    mean: list[float]
    std: list[float]
    classes: list[str]
    padding: int
    flip: bool
    resize: int | None
    crop: int | None
    notes: dict[str, list[str]]  # by split


def holds(folder: Path) -> bool:
    """Whether a folder is one of these."""
    return (folder / FILE).is_file()


def splits(folder: Path) -> tuple[Split, ...]:
    """The splits that are there."""
    return tuple(split for split in SPLITS if (folder / f"x_{split}.npy").is_file())


def load(folder: Path, split: Split) -> Dataset:
    """A split of a folder; its pixels stay on disk until they are needed."""
    if split not in splits(folder):
        available = " or ".join(splits(folder)) or "test"
        raise ArgumentError(f"expected split {available} of {folder}, got {split!r}{MORE if split == 'train' else ''}")
    header = _header(folder / FILE)
    x = map_npy(folder / f"x_{split}.npy")
    y, ids = (read_npy(folder / f"{name}_{split}.npy") for name in ("y", "ids"))
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[1] != len(header.mean):
        raise ArgumentError(
            f"expected uint8 images of {len(header.mean)} channels in {folder}, got {x.dtype} of shape {x.shape}"
        )
    if any(array.dtype != np.int64 or array.ndim != 1 for array in (y, ids)):
        raise ArgumentError(f"expected labels and ids as int64, one per image, in {folder}, got {y.dtype}, {ids.dtype}")
    if header.padding > max(x.shape[2:]):
        raise ArgumentError(f"expected padding of at most an image's side in {folder}, got {header.padding}")
    classes, notes = (tuple(map(printable, texts)) for texts in (header.classes, header.notes.get(split, ())))
    return Dataset(
        printable(header.name), x, y, ids, header.num_classes, tuple(header.mean), tuple(header.std), classes,
        header.padding, header.flip, notes, (header.resize, header.crop),
    )  # fmt: skip


def others(folder: Path) -> list[str]:
    """What `write` has not put into a folder; what it left there when it was interrupted is its own."""
    written = {LOCK, *((*FILES, NEW) if _is_ours(folder) else ())}
    parts = {path.name for path in folder.glob(TEMPORARY.format("*"))}
    return sorted(path.name for path in folder.iterdir() if path.name not in written | parts)


def _is_ours(folder: Path) -> bool:
    """Whether arrays in a folder, whose names are common ones, were written by a preparation."""
    if (folder / LOCK).exists():
        return True
    try:
        return holds(folder) and _header(folder / FILE) is not None
    except ArgumentError:
        return False


def refuse_unfinished(folder: Path) -> None:
    """An error if a folder holds nothing but what a preparation wrote that did not come to its end."""
    if folder.is_dir() and any(folder.iterdir()) and not others(folder) and not holds(folder):
        raise ArgumentError(
            f"expected prepared data in {folder}, got the beginning of it, without {FILE}: run `anisocert data "
            "prepare` again, unless it is still at work"
        )


def held(folder: Path) -> AbstractContextManager[int]:
    """One process at a time writes to a folder; a second one is refused."""
    busy = f"expected {folder} to be idle, got a preparation at work in it: wait for its end, or choose another --out"
    return locked(folder / LOCK, wait=False, busy=busy)


def write(folder: Path, parts: Mapping[Split, Dataset]) -> None:
    """Write splits of one data set to a folder that is held; what is there is replaced once they are complete.

    `data.json` comes last, so that it is complete or not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / NEW
    for leftover in folder.glob(TEMPORARY.format("*")):  # by a preparation that was killed
        leftover.unlink()
    if new.is_symlink() or new.is_file():
        new.unlink()
    elif new.exists():
        shutil.rmtree(new)
    new.mkdir()
    try:
        _write_arrays(new, parts)
        for name in (FILE, *sorted(FILES)):  # data.json first: what is incomplete must not look complete
            (folder / name).unlink(missing_ok=True)
        for path in sorted(new.iterdir()):
            path.replace(folder / path.name)
    finally:
        shutil.rmtree(new)
    data = next(iter(parts.values()))
    preparation = data.preparation
    content = {
        "name": data.name, "num_classes": data.num_classes, "mean": data.mean, "std": data.std,
        "classes": data.class_names, "padding": data.crop, "flip": data.flip, "resize": preparation["resize"],
        "crop": preparation["crop"], "notes": {split: data.notes for split, data in parts.items()},
    }  # fmt: skip
    write_whole(folder / FILE, lambda part: part.write_text(json.dumps(content, indent=1) + "\n"))


def _write_arrays(folder: Path, parts: Mapping[Split, Dataset]) -> None:
    for split, data in parts.items():
        write_whole(folder / f"x_{split}.npy", partial(_write_pixels, data=data))
        for name, values in (("y", data.y), ("ids", data.ids)):
            write_whole(folder / f"{name}_{split}.npy", partial(_write, values=values))


def _write_pixels(path: Path, data: Dataset) -> None:
    """The images one after the other, decoded by several threads, a few pieces ahead of the disk."""
    pieces = [np.arange(start, min(start + PIECE, len(data))) for start in range(0, len(data), PIECE)]
    shape = (len(data), *data.shape)  # all sizes are looked at before anything is decoded
    with path.open("wb") as file, ThreadPool(READERS) as pool:
        npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for start in range(0, len(pieces), READERS):
            for images in pool.map(lambda piece: np.asarray(data.pixels[piece]), pieces[start : start + READERS]):
                file.write(np.ascontiguousarray(images).data)


def _write(path: Path, values: NDArray[np.int64]) -> None:
    with path.open("wb") as file:
        np.save(file, values)


def _header(path: Path) -> Header:
    try:
        content = json.loads(read_regular(path, LARGEST).decode())
        header = Header(**{field.name: content[field.name] for field in fields(Header)})
        _check(header)
    except ArgumentError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ArgumentError(
            f"expected what `anisocert data prepare` writes in {path}, got: {str(error)[:200]}: prepare it again"
        ) from error
    return header


def _check(header: Header) -> None:
    """An error unless each value has its type."""
    numbers = [*header.mean, *header.std]
    texts = [header.name, *header.classes, *(line for lines in header.notes.values() for line in lines)]
    counts = [header.num_classes, header.padding, *(side for side in (header.resize, header.crop) if side is not None)]
    if (
        not all(isinstance(number, float) and np.isfinite(number) for number in numbers)
        or len(header.mean) != len(header.std)
        or not all(isinstance(text, str) for text in texts)
        or not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts)
        or not isinstance(header.flip, bool)
    ):
        raise ValueError("values of other types")
