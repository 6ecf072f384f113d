"""A data set: inputs, labels and stable example ids."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anisocert.data._folder_notes import printable
from anisocert.data._image_files import ImageFiles
from anisocert.errors import ArgumentError
from anisocert.inputs import MOST_CLASSES, hash_values

Split = Literal["train", "test"]
Pixels = NDArray[np.uint8] | NDArray[np.float32] | ImageFiles

# Test examples are numbered as the field does, from 0; train examples from here on, so that no two share an id.
FIRST_TRAIN_ID = 1_000_000
MOST_IDS = 1_000_000  # in one list of ids; more than any data set of the catalogue has
UNLABELLED = -1
LONGEST_ID = 18  # digits: such numbers fit into 64 bits


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples of one split.

    pixels: `n x *shape`, uint8 (0 to 255), float32 in the data's own units, or image files that are read on demand.
    y: `n` class numbers, or UNLABELLED for all of them. ids: `n` numbers that name an example for good, whatever subset
    it is seen in.
    mean, std: one value per channel, for the normalisation inside a network. crop, flip: what the field's training does
    with this data: random crops after padding by `crop` pixels, and random mirroring. notes: what was done to the data,
    or taken for granted, that a user may not expect. scaled: where arrays were made from image files, the shorter side
    and the central square in pixels that these were brought to.
    """

    name: str
    pixels: Pixels
    y: NDArray[np.int64]
    ids: NDArray[np.int64]
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_names: tuple[str, ...] = ()
    crop: int = 0
    flip: bool = False
    notes: tuple[str, ...] = ()
    scaled: tuple[int | None, int | None] = (None, None)

    def __post_init__(self) -> None:
        if len(self.pixels) == 0:
            raise ArgumentError(f"expected a data set with at least one example, got an empty {self.name}")
        for name, values in (("label", self.y), ("id", self.ids)):
            if len(values) != len(self.pixels):
                raise ArgumentError(
                    f"expected one {name} for each of the {len(self.pixels)} examples of {self.name}, got {len(values)}"
                )
        if self.num_classes > MOST_CLASSES:
            raise ArgumentError(
                f"expected at most {MOST_CLASSES:,} classes, numbered from 0, in {self.name}, got {self.num_classes:,}"
            )
        if self.labelled and (self.y.min() < 0 or self.y.max() >= self.num_classes):
            raise ArgumentError(
                f"expected labels 0 to {self.num_classes - 1} in {self.name}, got {self.y.min()} to {self.y.max()}"
                f"{_from_zero(self.y)}"
            )
        ordered = np.sort(self.ids)  # np.unique hashes, and takes seconds for a million
        if ordered[0] < 0:
            raise ArgumentError(f"expected ids >= 0 in {self.name}, got {ordered[0]}")
        if len(repeated := ordered[1:][ordered[1:] == ordered[:-1]]):
            raise ArgumentError(f"expected distinct ids in {self.name}, got {repeated[0]} more than once")

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def labelled(self) -> bool:
        """Whether the classes of the examples are known."""
        return bool((self.y != UNLABELLED).any())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return tuple(self.pixels.shape[1:])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the examples' files, `class/file`, in their order; none where they have no files of their own."""
        files = self.pixels.paths if isinstance(self.pixels, ImageFiles) else ()
        return tuple(printable(f"{path.parent.name}/{path.name}") for path in files)

    @property
    def remarks(self) -> tuple[str, ...]:
        """`notes`, and what image files say that is not heeded; these are looked at for it, as for `shape`."""
        if not isinstance(self.pixels, ImageFiles):
            return self.notes
        conditions = {
            "a rotation noted in the file (EXIF) is not applied": [look.turned for look in self.pixels.looks],
            "transparency is dropped": [look.transparent for look in self.pixels.looks],
        }
        return self.notes + tuple(
            f"{remark}, as by torchvision's ImageFolder: {sum(flags):,} of {len(flags):,} images, as in "
            f"{self.names[flags.index(True)]}"
            for remark, flags in conditions.items()
            if any(flags)
        )

    @property
    def named(self) -> dict[str, int]:
        """The ids of the examples by the names of their files."""
        return dict(zip(self.names, self.ids.tolist(), strict=True)) if self.names else {}

    @property
    def preparation(self) -> dict[str, Any]:
        """How the inputs were made, for whoever has to make the same ones. levels: steps from 0 to 1, for bytes."""
        resize, crop = (self.pixels.resize, self.pixels.crop) if isinstance(self.pixels, ImageFiles) else self.scaled
        from_bytes = not isinstance(self.pixels, np.ndarray) or self.pixels.dtype == np.uint8
        return {
            "shape": list(self.shape),
            "range": [0.0, 1.0] if from_bytes else None,
            "levels": 255 if from_bytes else None,
            "resize": resize,
            "crop": crop,
            "classes": list(self.class_names) or None,
        }

    @cached_property
    def x(self) -> NDArray[np.float32]:
        """The inputs, `n x *shape`, float32; bytes become [0, 1]."""
        return as_float(np.asarray(self.pixels))

    def sample(self, most: int = 32) -> NDArray[np.float32]:
        """The inputs of some examples, evenly spaced, after a check that all have one shape."""
        shape = self.shape
        at = evenly(len(self), most)
        return as_float(np.asarray(self.pixels[at])).reshape(len(at), *shape)

    def spread(self) -> float:
        """Standard deviation of the values; of rows, whose features have units of their own, the median feature's."""
        x = self.sample(256).astype(np.float64)
        return float(np.median(x.std(0)) if x.ndim == 2 else x.std())

    def fingerprint(self) -> str:
        """SHA-256 of all pixels and labels."""
        digest = hashlib.sha256()
        for values in (np.asarray(self.pixels), self.y):
            hash_values(digest, values)
        return digest.hexdigest()

    def subset(self, skip: int = 1, most: int | None = None, ids: Sequence[int] | None = None) -> "Dataset":
        """Every skip-th of the examples with these ids (default: all), at most `most`, in this data's order.

        skip=20, most=500 is what the field reports on CIFAR-10; `most` is a count of examples.
        """
        if skip < 1 or (most is not None and most < 1):
            raise ArgumentError(f"expected skip >= 1 and max >= 1, got skip {skip} and max {most}")
        chosen = np.arange(len(self))
        if ids is not None:
            unknown = sorted(set(ids) - set(self.ids.tolist()))
            if unknown:
                raise ArgumentError(
                    f"expected ids of {self.name} ({len(self):,} from {self.ids.min()} to {self.ids.max()} in this "
                    f"split), got {', '.join(map(str, unknown[:5]))}, not in it"
                )
            chosen = np.flatnonzero(np.isin(self.ids, list(ids)))
        return self.at(chosen[::skip][:most])

    def at(self, places: NDArray[np.intp]) -> "Dataset":
        """The examples at these positions, in this order. Of a mapped array, evenly spaced ones stay on disk."""
        steps = np.unique(np.diff(places))
        even = isinstance(self.pixels, np.memmap) and len(steps) == 1 and steps[0] > 0
        pixels = self.pixels[places[0] : places[-1] + 1 : steps[0]] if even else self.pixels[places]  # type: ignore[index]
        return replace(self, pixels=pixels, y=self.y[places], ids=self.ids[places])


def as_float(pixels: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
    """Bytes as [0, 1]; floats as they are."""
    if pixels.dtype == np.uint8:
        return np.divide(pixels, np.float32(255), dtype=np.float32)
    return pixels.astype(np.float32, copy=False)


def _from_zero(y: NDArray[np.int64]) -> str:
    """How to number classes from 0."""
    if set(np.unique(y).tolist()) == {-1, 1}:
        return ": save (y > 0).astype(int)"
    return ": class numbers begin at 0; leave out examples of an unknown class" if y.min() == UNLABELLED else ""


def evenly(count: int, most: int | None = None) -> NDArray[np.int64]:
    """Positions of at most `most` of so many things, evenly spaced, the first and the last among them; None: of all."""
    spaced = np.linspace(0, count - 1, count if most is None else min(most, count))
    return np.unique(spaced.round().astype(np.int64))


def in_words(label: int, class_names: Sequence[str]) -> str:
    """A class, with its name where it has one that says more than its number."""
    has_name = 0 <= label < len(class_names) and class_names[label] != str(label)
    return f"{label} ({class_names[label]})" if has_name else f"class {label}"


def parse_ids(text: str, named: Mapping[str, int] | None = None) -> list[int]:
    """The ids in "3,17,100-199" (ranges include their end). named: those of files, by which they may be called."""
    ids: list[int] = []
    for part in filter(None, map(str.strip, text.split(","))):
        if is_name(part):
            if part not in (named or {}):
                like = f", as in {next(iter(named))}" if named else ""
                raise ArgumentError(f"expected ids, or names of files{like}, got {part[:100]!r}, which is none of them")
            ids.append((named or {})[part])
            continue
        part = part.replace(" ", "")
        first, dash, last = part.partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdecimal() and len(end) <= LONGEST_ID for end in ends):
            raise ArgumentError(f"expected ids as in 3,17,100-199, got {part[:50]!r}")
        low, high = map(int, ends)
        if low > high:
            raise ArgumentError(f"expected ranges of ids from low to high, as in 100-199, got {part!r}")
        if len(ids) + high - low >= MOST_IDS:
            raise ArgumentError(f"expected at most {MOST_IDS:,} ids, got {len(ids) + high - low + 1:,} with {part!r}")
        ids.extend(range(low, high + 1))
    return ids


def is_name(part: str) -> bool:
    """Whether an item of a list of ids is the name of a file, `class/file`."""
    return "/" in part
