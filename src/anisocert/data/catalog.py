"""Data sets by name or path: the one place that knows them all."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from anisocert.data import arrays, cache, cifar10, folders, imagenet, mnist, prepared, tiny_imagenet
from anisocert.data._fetching import Say
from anisocert.data.dataset import Dataset, Split
from anisocert.data.digits import digits
from anisocert.errors import ArgumentError


@dataclass(frozen=True)
class Entry:
    """A data set with a name. fetch: None if there is nothing to download; present: whether it can be loaded now."""

    name: str
    title: str
    load: Callable[[Split], Dataset]
    present: Callable[[], bool]
    fetch: Callable[[Say], bool] | None = None


def _idx(one: mnist.IdxSet) -> Entry:
    return Entry(one.name, one.title, one.load, lambda: one.find() is not None, one.fetch)


CATALOG: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("digits", "handwritten digits, 8x8 grey, comes with scikit-learn", digits, lambda: True),
        _idx(mnist.MNIST),
        _idx(mnist.FASHION),
        Entry(
            "cifar10", "photos of ten kinds of thing, 32x32 colour",
            cifar10.load, lambda: cifar10.find(cache.root()) is not None, cifar10.fetch,
        ),
        Entry(
            tiny_imagenet.NAME, "photos of 200 classes, 64x64 colour, from your folder",
            tiny_imagenet.load, tiny_imagenet.present,
        ),
        Entry(
            "imagenet", "validation images of 1,000 classes, 224x224 colour, from your folder",
            imagenet.load, imagenet.present,
        ),
    )
}  # fmt: skip


def load(name: str | Path, split: Split = "test", layout: str | None = None) -> Dataset:
    """A data set: a name of the catalogue, an `.npz` or `.npy` file, or a folder (of images, prepared
    arrays, CIFAR-10 or IDX files).

    layout: "channels-first" where a file's images are `n x c x h x w` and their shape does not show it.
    """
    if split not in get_args(Split):
        raise ArgumentError(f"expected split 'train' or 'test', got {split!r}")
    if str(name) in CATALOG:
        return CATALOG[str(name)].load(split)
    path = _path(name)
    if path.is_file():
        return arrays.load(path, split, layout)
    if prepared.holds(path):
        return prepared.load(path, split)
    if tiny_imagenet.holds(path):
        return tiny_imagenet.read(path, split)
    if (place := cifar10.find(path)) is not None:
        return cifar10.read(place, split)
    for place in (path, path / "raw"):
        if mnist.holds(place):
            return mnist.which(place).read(place, split)
    prepared.refuse_unfinished(path)
    return folders.load(path, split)


def splits(name: str | Path) -> tuple[Split, ...]:
    """The splits of a data set; none if all examples are one set, which `load` then returns for either."""
    if str(name) in CATALOG:
        return imagenet.splits() if str(name) == "imagenet" else ("train", "test")
    path = _path(name)
    if path.is_file():
        return arrays.split_names(path)
    if prepared.holds(path):
        return prepared.splits(path)
    if tiny_imagenet.holds(path):
        return ("train", "test")
    if cifar10.find(path) is not None or mnist.holds(path) or mnist.holds(path / "raw"):
        return ("train", "test")
    return folders.split_names(path)


def fetch(name: str, say: Say = lambda _: None) -> bool:
    """Download a data set if it is absent; False if there was nothing to do. say: called with what is being tried."""
    if name not in CATALOG:
        raise ArgumentError(f"expected a data set among {', '.join(CATALOG)}, got {name!r}")
    entry = CATALOG[name]
    if entry.fetch is None:
        entry.load("test")  # says what to put where, if it is absent
        return False
    return entry.fetch(say)


def _path(name: str | Path) -> Path:
    path = Path(name).expanduser()
    if path.is_dir() or (path.is_file() and path.suffix in (".npz", ".npy")):
        return path
    raise ArgumentError(f"expected a data set among {', '.join(CATALOG)}, an .npz or .npy file or folder, got {name!s}")
