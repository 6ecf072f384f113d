"""Lists that come with image folders, and lists of names in messages."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from anisocert.data._folder_notes import printable
from anisocert.errors import ArgumentError
from anisocert.inputs import read_regular

LARGEST = 1 << 24  # bytes of a list
SHOWN = 3
WORDNET = re.compile(r"n[0-9]{8}")


def lines(path: Path) -> list[str]:
    """The lines of a text file."""
    return read_regular(path, LARGEST).decode(errors="replace").splitlines()


def classes_of(pairs: Iterable[Sequence[str]], path: Path) -> dict[str, str]:
    """The class of each image, from (image, class) pairs of a list; an error if one image has two classes."""
    classes: dict[str, str] = {}
    for image, label in pairs:
        if classes.setdefault(image, label) != label:
            got = f"{printable(classes[image])[:50]} and {printable(label)[:50]} for {printable(image)[:100]}"
            raise ArgumentError(f"expected one class for each image in {path}, got {got}")
    return classes


def few(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(printable(name)[:100] for name in names[:SHOWN]) + more
