"""Tiny-ImageNet (Stanford CS231n 2015): 200 classes, 64x64 colour; 100,000 training and 10,000 validation images.

The folder `tiny-imagenet-200` as it is published: `wnids.txt` lists the classes, `words.txt` says what they are,
`train/CLASS/images` holds the training images and `val/images` the others, with classes in `val/val_annotations.txt`.
Its `test/images` have no published labels and are not used: the validation images are the test split, as in the field.
"""

from pathlib import Path

import numpy as np

from anisocert.data import cache, prepared
from anisocert.data._folder_notes import printable
from anisocert.data._image_files import ImageFiles
from anisocert.data._lists import WORDNET, classes_of, few, lines
from anisocert.data.dataset import FIRST_TRAIN_ID, Dataset, Split
from anisocert.data.folders import files_in
from anisocert.errors import ArgumentError

NAME, FOLDER = "tiny-imagenet", "tiny-imagenet-200"
CLASSES, WORDS, ANNOTATIONS = "wnids.txt", "words.txt", "val/val_annotations.txt"
WHOLE: dict[Split, int] = {"train": 100_000, "test": 10_000}
MEAN, STD = (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)  # of the training images
PADDING = 8  # of 64 pixels, as CIFAR-10's 4 of 32
NEEDS = f"{CLASSES}, train/CLASS/images, val/images and {ANNOTATIONS}"


def load(split: Split) -> Dataset:
    """The data set of this name, from arrays that `prepare` has made."""
    if not present():
        prepared.refuse_unfinished(cache.root() / NAME)
        raise ArgumentError(
            f"{NAME} is not in {cache.root()}: get {FOLDER}.zip (http://cs231n.stanford.edu/{FOLDER}.zip), unpack it, "
            f"and run `anisocert data prepare {NAME} {FOLDER}`; the folder has {NEEDS}"
        )
    return prepared.load(cache.root() / NAME, split)


def present() -> bool:
    """Whether its arrays are in the cache folder."""
    return prepared.holds(cache.root() / NAME)


def holds(folder: Path) -> bool:
    """Whether a folder is the published one."""
    return all((folder / name).is_file() for name in (CLASSES, ANNOTATIONS))


def read(folder: Path, split: Split) -> Dataset:
    """The images of a folder, read on demand. Classes are numbered in alphabetical order of their WordNet ids.

    ids: of a validation image the number in its name (val_17.JPEG), of a training image its place among all.
    """
    missing = [name for name in (CLASSES, ANNOTATIONS, "train", "val/images") if not (folder / name).exists()]
    if missing:
        raise ArgumentError(f"expected {NEEDS} in {folder}, got no {', '.join(missing)}")
    wordnet = sorted({line.strip() for line in lines(folder / CLASSES) if line.strip()})
    if unfit := [name for name in wordnet if not WORDNET.fullmatch(name)]:
        raise ArgumentError(f"expected WordNet ids, as n01443537, in {folder / CLASSES}, got {few(unfit)}")
    paths, classes, ids = (_train if split == "train" else _validation)(folder, wordnet)
    numbers = {name: i for i, name in enumerate(wordnet)}
    total = WHOLE[split]
    notes = () if len(paths) == total else (f"a part of {NAME}'s {split} images: {len(paths):,} of {total:,}",)
    return Dataset(
        NAME, ImageFiles(paths), np.array([numbers[name] for name in classes], np.int64), np.array(ids, np.int64),
        len(wordnet), MEAN, STD, _names(folder, wordnet), PADDING, True, notes,
    )  # fmt: skip


def _train(folder: Path, wordnet: list[str]) -> tuple[list[Path], list[str], list[int]]:
    images = {name: files_in(place) for name in wordnet if (place := folder / "train" / name / "images").is_dir()}
    if empty := [name for name in wordnet if not images.get(name)]:
        raise ArgumentError(
            f"expected images in train/CLASS/images for each class of {CLASSES}, got none for {few(empty)}"
        )
    paths = [path for name in wordnet for path in images[name]]
    return paths, [name for name in wordnet for _ in images[name]], [FIRST_TRAIN_ID + i for i in range(len(paths))]


def _validation(folder: Path, wordnet: list[str]) -> tuple[list[Path], list[str], list[int]]:
    annotations = folder / ANNOTATIONS
    classes = classes_of((line.split("\t")[:2] for line in lines(annotations) if line.count("\t")), annotations)
    paths = {path.name: path for path in files_in(folder / "val" / "images")}
    if absent := sorted(set(classes) - set(paths)):
        raise ArgumentError(
            f"expected the images that {ANNOTATIONS} names in {folder / 'val/images'}, got no {few(absent)}"
        )
    if unknown := sorted(set(paths) - set(classes)):
        raise ArgumentError(f"expected a class for each validation image in {ANNOTATIONS}, got none for {few(unknown)}")
    if foreign := sorted(set(classes.values()) - set(wordnet)):
        raise ArgumentError(f"expected classes of {CLASSES} in {folder / ANNOTATIONS}, got {few(foreign)}")
    numbers = {name: name.removeprefix("val_").partition(".")[0] for name in classes}
    if unnumbered := [name for name, number in numbers.items() if not number.isdecimal() or len(number) > 6]:
        raise ArgumentError(f"expected validation images named val_0.JPEG, ... in {folder}, got {few(unnumbered)}")
    order = sorted(classes, key=lambda name: int(numbers[name]))
    return [paths[name] for name in order], [classes[name] for name in order], [int(numbers[name]) for name in order]


def _names(folder: Path, wordnet: list[str]) -> tuple[str, ...]:
    """What each class is, in a word; its WordNet id where `words.txt` does not say."""
    if not (folder / WORDS).is_file():
        return tuple(map(printable, wordnet))
    words = dict(line.split("\t")[:2] for line in lines(folder / WORDS) if line.count("\t"))
    return tuple(printable(words.get(name, name).split(",")[0]) for name in wordnet)
