"""ImageNet's validation images (Russakovsky et al. 2015), all 50,000 or a part of them, from folders that people have.

Either one folder per class, named by WordNet ids (n01440764, ...) or by the field's class numbers, or all images in one
folder, with their classes in `val.txt` (Caffe's) or `LOC_val_solution.csv` (Kaggle's). Which number a WordNet id has,
and what it means, is in `imagenet_class_index.json` (Keras's) or `LOC_synset_mapping.txt` (Kaggle's); where all 1,000
are there, their alphabetical order says the number too.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anisocert.data import cache, prepared
from anisocert.data._folder_notes import named_by_numbers, printable
from anisocert.data._image_files import ImageFiles
from anisocert.data._lists import WORDNET, classes_of, few, lines
from anisocert.data.dataset import Dataset, Split
from anisocert.data.folders import ENDINGS, files_in, scan
from anisocert.errors import ArgumentError
from anisocert.inputs import IMAGENET_MEAN, IMAGENET_STD

CLASSES, IMAGES = 1000, 50_000
RESIZE, CROP = 256, 224
PLACES = ("val", "ILSVRC2012_img_val", "ILSVRC2012_img_val_subset", "ILSVRC/Data/CLS-LOC/val", ".")
KERAS, KAGGLE = "imagenet_class_index.json", "LOC_synset_mapping.txt"
LISTS = ("LOC_val_solution.csv", "val.txt")
LISTED = re.compile(r"([^\s,]+)[\s,]+(n[0-9]{8}|[0-9]{1,4})(?![^\s,])")
OWN_NUMBER = re.compile(r"ILSVRC2012_val_([0-9]{8})")
NEEDS = (
    "one folder of images per class, named n01440764, ... or 0, 1, ... (or all images in one folder, with their "
    f"classes in {' or '.join(LISTS)})"
)


def load(split: Split) -> Dataset:
    """The data set of this name: arrays that `prepare` has made, or the whole set's images."""
    place = cache.root() / "imagenet"
    if prepared.holds(place):
        return prepared.load(place, split)
    folder = _folder()
    if folder is None:
        prepared.refuse_unfinished(place)
        raise ArgumentError(
            f"imagenet is not in {cache.root()}: it cannot be downloaded freely; run `anisocert data prepare imagenet "
            f"FOLDER`, where FOLDER has {NEEDS}, or put the validation images into {place / 'val'}, in one folder per "
            "class, or set $IMAGENET_DIR"
        )
    if split != "test":
        raise ArgumentError(f"expected split 'test' of imagenet (the validation images), got {split!r}{prepared.MORE}")
    data = read(folder)
    if data.notes:
        raise ArgumentError(
            f"expected 1000 classes with 50,000 images in all in {folder}, got {len(np.unique(data.y))} with "
            f"{len(data)}: a part of it works after `anisocert data prepare imagenet FOLDER`, or as --data FOLDER"
        )
    return data


def splits() -> tuple[Split, ...]:
    """The splits that are there."""
    place = cache.root() / "imagenet"
    return prepared.splits(place) if prepared.holds(place) else ("test",)


def present() -> bool:
    """Whether `load` has the whole set, or what was prepared, to load."""
    try:
        return len(load("test")) > 0
    except (ArgumentError, OSError):
        return False


def read(folder: Path, resize: int = RESIZE, crop: int = CROP) -> Dataset:
    """The images of a folder, read on demand: shorter side `resize`, central `crop` pixels.

    Of the whole set, ids are positions in the order of classes and files, as the field counts them. Of a part, they are
    the numbers in the files' names (1 to 50,000), which are in no order of classes, and so are the examples.
    """
    place = next((folder / name for name in PLACES if _images_in(folder / name)), None)
    if place is None:
        raise ArgumentError(f"expected {NEEDS} in {folder}, got nothing of that")
    named = _classes(folder) or _classes(place)
    paths, labels, names = _by_folder(place, named) if _class_folders(place) else _by_list(folder, place, named)
    whole = len(paths) == IMAGES and len(set(labels)) == CLASSES
    order = sorted(range(len(paths)), key=lambda i: (labels[i], paths[i].name))
    ids = list(range(len(paths)))
    if not whole:
        numbers = _own_numbers(paths)
        order = sorted(order, key=numbers.__getitem__)
        ids = [numbers[i] for i in order]
    return Dataset(
        "imagenet", ImageFiles([paths[i] for i in order], 3, resize, crop), np.array(labels, np.int64)[order],
        np.array(ids, np.int64), CLASSES, IMAGENET_MEAN, IMAGENET_STD, names, flip=True,
        notes=() if whole else notes(len(paths)),
    )  # fmt: skip


def notes(images: int) -> tuple[str, ...]:
    """What is said of a part of the set."""
    return (f"a part of ImageNet's validation images: {images:,} of {IMAGES:,}",)


@dataclass(frozen=True)
class Named:
    """Number of each WordNet id, and name of each number."""

    numbers: dict[str, int]
    names: tuple[str, ...]


def _by_folder(place: Path, named: Named | None) -> tuple[list[Path], list[int], tuple[str, ...]]:
    if loose := [path.name for path in files_in(place)]:
        raise ArgumentError(f"expected each image in the folder of its class in {place}, got {few(loose)} outside")
    paths, positions, folders, _ = scan(place)
    if named_by_numbers(folders):
        numbers = [int(name) for name in folders]
        if len(set(numbers)) < len(numbers):
            raise ArgumentError(f"expected one folder per class in {place}, got two names for one number")
        if max(numbers) >= CLASSES or min(numbers) < 0:
            raise ArgumentError(f"expected class folders 0 to 999 in {place}, got {min(numbers)} to {max(numbers)}")
        names = named.names if named else tuple(map(str, range(CLASSES)))
    else:
        named = named or (Named({name: i for i, name in enumerate(folders)}, folders) if _all(folders) else None)
        numbers = [_number(name, named, place) for name in folders]
        names = named.names if named else ()
    return paths, [numbers[i] for i in positions], names


def _by_list(folder: Path, place: Path, named: Named | None) -> tuple[list[Path], list[int], tuple[str, ...]]:
    listing = next((parent / name for name in LISTS for parent in (folder, place) if (parent / name).is_file()), None)
    if listing is None:
        raise ArgumentError(f"expected {NEEDS} in {folder}, got images in {place} without a list of classes")
    classes = classes_of(((_stem(m[1]), m[2]) for line in lines(listing) if (m := LISTED.match(line))), listing)
    paths = files_in(place)
    if unknown := [path.name for path in paths if path.stem not in classes]:
        raise ArgumentError(f"expected a class for each image in {listing}, got none for {few(unknown)}")
    labels = [classes[path.stem] for path in paths]
    numbers = [int(label) if label.isdecimal() else _number(label, named, folder) for label in labels]
    if max(numbers) >= CLASSES:
        raise ArgumentError(f"expected classes 0 to 999 in {listing}, got {max(numbers)}")
    return paths, numbers, named.names if named else tuple(map(str, range(CLASSES)))


def _stem(name: str) -> str:
    """A file's name without its ending, which a list may leave out."""
    path = Path(name)
    return path.stem if path.suffix.lower() in ENDINGS else path.name


def _classes(folder: Path) -> Named | None:
    """What a list of the classes says, if there is one here or beside."""
    for place in (folder, folder.parent):
        if (place / KERAS).is_file():
            try:
                index = json.loads("\n".join(lines(place / KERAS)))
                pairs = [(str(index[str(i)][0]), str(index[str(i)][1])) for i in range(CLASSES)]
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise ArgumentError(
                    f'expected {{"0": ["n01440764", "tench"], ...}} for 1000 classes in {place / KERAS}, got: {error!r}'
                ) from error
        elif (place / KAGGLE).is_file():
            pairs = [(line[:9], line[9:].split(",")[0].strip()) for line in lines(place / KAGGLE) if line.strip()]
        else:
            continue
        ids = [wordnet for wordnet, _ in pairs]
        if len(ids) != CLASSES or ids != sorted(set(ids)) or not all(map(WORDNET.fullmatch, ids)):
            raise ArgumentError(
                f"expected 1000 WordNet ids in alphabetical order, each once, in the list of classes in {place}, got "
                f"{len(ids)} lines, or another order, or other words"
            )
        return Named({wordnet: i for i, wordnet in enumerate(ids)}, tuple(printable(name) for _, name in pairs))
    return None


def _number(wordnet: str, named: Named | None, place: Path) -> int:
    if named is None:
        raise ArgumentError(
            f"expected {KERAS} or {KAGGLE} beside the images in {place}, which say the number of each class where not "
            "all 1000 are there, got neither"
        )
    if wordnet not in named.numbers:
        raise ArgumentError(f"expected WordNet ids of ImageNet's classes in {place}, got {printable(wordnet)[:50]!r}")
    return named.numbers[wordnet]


def _own_numbers(paths: list[Path]) -> list[int]:
    matches = [OWN_NUMBER.match(path.name) for path in paths]
    numbers = [int(match.group(1)) for match in matches if match]
    if len(set(numbers)) < len(paths):
        unfit = [path.name for path, match in zip(paths, matches, strict=True) if match is None]
        got = f"{few(unfit)} among others" if unfit else "one number for several images"
        raise ArgumentError(
            f"expected images named ILSVRC2012_val_00000001.JPEG, ..., each once, got {got}: for other names use "
            "the folder itself, as --data FOLDER, with images.json for their size (docs/worked-examples.md)"
        )
    return numbers


def _folder() -> Path | None:
    """Where the images of the named data set are, if anywhere."""
    folder, place = os.environ.get("IMAGENET_DIR"), cache.root() / "imagenet"
    if folder and Path(folder).is_dir():
        return Path(folder)
    return place if any(_images_in(place / name) for name in PLACES) else None


def _images_in(place: Path) -> bool:
    return place.is_dir() and (bool(_class_folders(place)) or bool(files_in(place)))


def _class_folders(place: Path) -> list[str]:
    with os.scandir(place) as entries:
        return [
            entry.name
            for entry in entries
            if (WORDNET.fullmatch(entry.name) or entry.name.isdecimal()) and entry.is_dir()
        ]


def _all(folders: tuple[str, ...]) -> bool:
    return len(folders) == CLASSES and all(WORDNET.fullmatch(name) for name in folders)
