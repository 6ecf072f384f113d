"""Data sets by name or path: the one place that knows them all."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import get_args

from anisocert.data import arrays, cache, cifar10, folders, imagenet, mnist, prepared, tiny_imagenet
from anisocert.data._fetching import Say
from anisocert.data.dataset import Dataset, Split
from anisocert.data.digits import digits
from anisocert.errors import ArgumentError, expect_one_of


def _both() -> tuple[Split, ...]:
    return ("train", "test")


@dataclass(frozen=True)
class Entry:
    """A data set with a name. fetch: None if there is nothing to download; present: whether it can be loaded now."""

    name: str
    title: str
    load: Callable[[Split], Dataset]
    present: Callable[[], bool]
    fetch: Callable[[Say], bool] | None = None
    splits: Callable[[], tuple[Split, ...]] = _both


def _idx(idx_set: mnist.IdxSet) -> Entry:
    return Entry(idx_set.name, idx_set.title, idx_set.load, lambda: idx_set.find() is not None, idx_set.fetch)


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
            imagenet.load, imagenet.present, splits=imagenet.splits,
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
    return _found(name, layout)[0](split)


def splits(name: str | Path) -> tuple[Split, ...]:
    """The splits of a data set; none if all examples are one set, which `load` then returns for either."""
    return _found(name)[1]()


def fetch(name: str, say: Say = lambda _: None) -> bool:
    """Download a data set if it is absent; False if there was nothing to do. say: called with what is being tried."""
    expect_one_of("a data set", name, CATALOG)
    entry = CATALOG[name]
    if entry.fetch is None:
        entry.load("test")  # says what to put where, if it is absent
        return False
    return entry.fetch(say)


def _found(
    name: str | Path, layout: str | None = None
) -> tuple[Callable[[Split], Dataset], Callable[[], tuple[Split, ...]]]:
    """How the data of a name or path is loaded, and which splits it has."""
    if (entry := CATALOG.get(str(name))) is not None:
        return entry.load, entry.splits
    path = _path(name)
    if path.is_file():
        return partial(arrays.load, path, layout=layout), partial(arrays.split_names, path)
    if prepared.holds(path):
        return partial(prepared.load, path), partial(prepared.splits, path)
    if tiny_imagenet.holds(path):
        return partial(tiny_imagenet.read, path), _both
    if (place := cifar10.find(path)) is not None:
        return partial(cifar10.read, place), _both
    for place in (path, path / "raw"):
        if mnist.holds(place):
            return partial(mnist.which(place).read, place), _both
    prepared.refuse_unfinished(path)
    return partial(folders.load, path), partial(folders.split_names, path)


def _path(name: str | Path) -> Path:
    path = Path(name).expanduser()
    if path.is_dir() or (path.is_file() and path.suffix in (".npz", ".npy")):
        return path
    raise ArgumentError(
        f"expected a data set among {', '.join(CATALOG)}, an .npz or .npy file or folder, got {name!s}{_instead(path)}"
    )


def _instead(path: Path) -> str:
    """What is wrong with a path, and how to make a data set of a table."""
    if not path.exists():
        near = get_close_matches(str(path), CATALOG, 1) if path.name == str(path) and not path.suffix else []
        return f": no such file or folder{f'; did you mean {near[0]}?' if near else ''}"
    if path.suffix != ".csv":
        return ""
    return (
        f": convert it, with rows = numpy.loadtxt({path.name!r}, delimiter=',', skiprows=1) and "
        f"numpy.savez({path.stem + '.npz'!r}, x=rows[:, :-1], y=rows[:, -1].astype(int)), if the class comes last"
    )
