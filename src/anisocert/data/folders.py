"""Data sets from folders of images: one folder per class."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anisocert.data._folder_notes import FILE, labelled, named_by_numbers, read_notes
from anisocert.data._image_files import ImageFiles, channels_of
from anisocert.data._lists import few
from anisocert.data.dataset import Dataset, Split
from anisocert.errors import ArgumentError
from anisocert.inputs import IMAGENET_MEAN, IMAGENET_STD, MOST_CLASSES, regular_file

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})
MOST_ENTRIES = 2_000_000  # more than ImageNet has in all; a path such as / would be read for hours
SPLITS: dict[Split, tuple[str, ...]] = {"train": ("train",), "test": ("test", "val", "valid", "validation")}
HIDDEN = (".", "__MACOSX")  # what systems leave in folders and archives


def load(folder: Path, split: Split) -> Dataset:
    """FOLDER/CLASS/IMAGE, or FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE.

    Notes in the folder (_folder_notes.py) say which class a folder is, and how images are made one size; the first
    image, whether they are grey. An image's id is made from its path below the folder, so it stays when other images
    come or go. Links to images and to folders of a class are followed, others are not.
    """
    root, notes = _split_folder(folder, split) or folder, read_notes(folder)
    # a class that one split lacks must not move the numbers of the others
    paths, places, folders, left_out = scan(root, *filter(None, (_split_folder(folder, kind) for kind in SPLITS)))
    numbers, classes = labelled(notes, folders, folder)
    remarks = () if notes.labels or named_by_numbers(folders) else _order(folders, numbers)
    if empty := [folders[place] for place in sorted(set(range(len(folders))) - set(places.tolist()))]:
        remarks += (f"folders without images count as classes too: {few(empty)}",)
    if left_out:
        remarks += (f"files of other kinds are left out: {_counted(left_out)}",)
    labels = np.array(numbers, np.int64)[places]
    ids = np.array([_id(path.relative_to(folder)) for path in paths], np.int64)
    images = ImageFiles(paths, channels_of(paths[0]), notes.resize, notes.crop)
    mean, std = ((0.5,), (0.25,)) if images.channels == 1 else (IMAGENET_MEAN, IMAGENET_STD)
    return Dataset(folder.name, images, labels, ids, len(classes), mean, std, classes, notes=remarks)


def _order(folders: tuple[str, ...], numbers: list[int]) -> tuple[str, ...]:
    """A line about which class a folder was taken for."""
    pairs = [f"{name} is {number}" for name, number in zip(folders, numbers, strict=True)]
    return (f"folders are classes in the order of their names, {few(pairs)}: if the network's are others, see {FILE}",)


def _counted(endings: Counter[str]) -> str:
    return few([f"{count} {ending or 'without ending'}" for ending, count in endings.most_common()])


def scan(folder: Path, *others: Path) -> tuple[list[Path], NDArray[np.int64], tuple[str, ...], Counter[str]]:
    """Paths, labels and class names: classes in alphabetical order, and the files of each (torchvision's order).

    others: folders whose classes count too, without their files. Last, how many files of which other endings there are.
    """
    entries = [entry for place in (folder, *others) for entry in place.iterdir()]
    classes = sorted({entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(HIDDEN)})
    if len(classes) > MOST_CLASSES:
        raise ArgumentError(
            f"expected at most {MOST_CLASSES:,} folders, one per class, in {folder} (--data), got {len(classes):,}"
        )
    count = len(entries)
    paths: list[Path] = []
    labels: list[int] = []
    left_out = Counter[str]()
    for label, name in enumerate(classes):
        images = []
        for entry in _below(folder / name):
            count += 1
            if count > MOST_ENTRIES:
                raise ArgumentError(
                    f"expected one folder of images per class in {folder} (--data), got one with more than "
                    f"{MOST_ENTRIES:,} files and folders: give the folder that holds the images alone"
                )
            ending = os.path.splitext(entry.name)[1].lower()
            if entry.is_dir() or entry.name.startswith("._" if ending in ENDINGS else "."):
                continue
            if ending in ENDINGS:
                images.append(Path(entry.path))
            else:
                left_out[ending] += 1
        images = [regular_file(path) for path in sorted(images)]
        paths += images
        labels += [label] * len(images)
    if len(classes) < 2 or not paths:
        got = f"{len(classes)} folders with {len(paths)} images" + (f", and {_counted(left_out)}" if left_out else "")
        raise ArgumentError(
            f"expected one folder of images per class, at least two classes, in {folder}, got {got}; images end in "
            f"{', '.join(sorted(ENDINGS))}{_arranging(folder, classes, paths)}"
        )
    return paths, np.array(labels, np.int64), tuple(classes), left_out


def _arranging(folder: Path, classes: list[str], paths: list[Path]) -> str:
    """How to arrange images that were found where classes were expected, or one class alone."""
    if not classes and files_in(folder):
        return ": put those of a class into a folder of their own; without labels, save them as x in an .npz"
    if not paths or len(classes) != 1:
        return ""
    only = folder / classes[0]
    if any(path.parent != only for path in paths):
        return f": if {classes[0]!r} holds the folders of classes, give {only}"
    return ": give the other classes a folder too, empty where there are no images of them"


def files_in(folder: Path) -> list[Path]:
    """The image files that lie in a folder itself, by name."""
    with os.scandir(folder) as entries:
        names = [
            entry.name for entry in entries if os.path.splitext(entry.name)[1].lower() in ENDINGS and not entry.is_dir()
        ]
    return [regular_file(folder / name) for name in sorted(names)]


def _below(top: Path) -> Iterator["os.DirEntry[str]"]:
    """Everything in a folder and the folders inside it; links to folders and other file systems are not entered."""
    waiting, device = [str(top)], None
    while waiting:
        try:
            with os.scandir(waiting.pop()) as inside:
                for entry in inside:
                    device = device or os.stat(top).st_dev
                    yield entry
                    if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == device:
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):  # a class that only another split has
            continue
        except PermissionError as error:  # its images would be missing, and nobody would know
            raise ArgumentError(
                f"expected a folder that can be read at {error.filename}, got: {error.strerror}"
            ) from error


def split_names(folder: Path) -> tuple[Split, ...]:
    """The splits of a folder; none if it holds one set of images."""
    return tuple(split for split in SPLITS if _split_folder(folder, split)) if _split_folder(folder, "train") else ()


def _split_folder(folder: Path, split: Split) -> Path | None:
    """The folder of a split, where the folder has both."""
    folders = {
        kind: next((folder / name for name in names if (folder / name).is_dir()), None)
        for kind, names in SPLITS.items()
    }
    return folders[split] if all(folders.values()) else None


def _id(relative: Path) -> int:
    """48 bits of the path's SHA-256: exact in every number format, and two images never share one in practice."""
    return int.from_bytes(hashlib.sha256(os.fsencode(relative.as_posix())).digest()[:6])
