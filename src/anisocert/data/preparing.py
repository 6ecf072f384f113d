"""`prepare`: a published folder of images becomes arrays that load at once, by name."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from anisocert.data import cache, imagenet, prepared, tiny_imagenet
from anisocert.data._fetching import Say
from anisocert.data._lists import few
from anisocert.data.dataset import Dataset, Split
from anisocert.errors import ArgumentError, expect_one_of

PREPARED = (tiny_imagenet.NAME, "imagenet")


def prepare(
    name: str,
    folder: Path,
    out: Path | None = None,
    *,
    resize: int | None = None,
    crop: int | None = None,
    test_every: int | None = None,
    force: bool = False,
    say: Say = lambda _: None,
) -> Path:
    """Decode the images of a folder into arrays, and return where they are.

    Args:
        name: "tiny-imagenet" or "imagenet".
        folder: as it was published; an error says what is missing in it.
        out: where the arrays go. Default: the cache folder, where the name finds them.
        resize: of imagenet, the shorter side's pixels before cropping. Default: 256.
        crop: of imagenet, the side of the central square that is kept. Default: 224.
        test_every: of imagenet, make the first of so many images, in order of id, the test split, and the others the
            train split. Default: all are the test split.
        force: replace arrays that are there, once the new ones are complete.
        say: called with what is found and done.
    """
    expect_one_of("a data set", name, PREPARED)
    tiny = name == tiny_imagenet.NAME
    if not folder.is_dir():
        needs = tiny_imagenet.NEEDS if tiny else imagenet.NEEDS
        raise ArgumentError(f"expected the folder of {name}, with {needs}, got nothing at {folder}")
    if tiny and (resize, crop, test_every) != (None, None, None):
        raise ArgumentError(f"expected resize, crop and test_every for imagenet alone, got one of them for {name}")
    out = cache.root() / name if out is None else out
    _expect_room(out, force)
    if tiny:
        parts = {split: tiny_imagenet.read(folder, split) for split in prepared.SPLITS}
    else:
        parts = _imagenet(folder, resize, crop, test_every)
    for split, data in parts.items():
        say(f"{split}: {len(data):,} images of {data.num_classes} classes, {' x '.join(map(str, data.shape))}")
        for note in data.notes:
            say(f"note: {note}")
    if len({data.shape for data in parts.values()}) > 1:
        raise ArgumentError(f"expected images of one size in {folder}, got another in each split")
    with prepared.held(out):
        _expect_room(out, force)  # another one may have been quicker
        prepared.write(out, parts)
    return out


def _expect_room(out: Path, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ArgumentError(f"expected a folder, or nothing, at {out}, got a file: choose another --out")
    if out.exists() and (foreign := prepared.others(out)):
        raise ArgumentError(
            f"expected an empty folder, or none, at {out}, got {few(foreign)} in it: choose another --out"
        )
    if prepared.holds(out) and not force:
        raise ArgumentError(f"expected no prepared data at {out}, got some: replace it with --force")


def _imagenet(folder: Path, resize: int | None, crop: int | None, test_every: int | None) -> dict[Split, Dataset]:
    crop = imagenet.CROP if crop is None else crop
    resize = imagenet.RESIZE if resize is None else resize
    if not 1 <= crop <= resize or (test_every is not None and test_every < 2):
        raise ArgumentError(
            f"expected 1 <= crop <= resize and test_every >= 2, got crop {crop}, resize {resize} and test_every "
            f"{test_every}"
        )
    dataset = imagenet.read(folder, resize, crop)
    if test_every is None:
        return {"test": dataset}
    test = np.arange(len(dataset)) % test_every == 0
    if test.all():
        raise ArgumentError(f"expected more than one image in {folder}, got {len(dataset)}")
    parts = {split: dataset.at(np.flatnonzero(test == (split == "test"))) for split in prepared.SPLITS}
    return {split: replace(data, notes=imagenet.notes(len(data))) for split, data in parts.items()}
