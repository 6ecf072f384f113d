"""What a folder of images says about itself, in FOLDER/images.json, all of it optional:

    {"resize": 256, "crop": 224, "labels": {"cat": 281, "dog": 207}, "num_classes": 1000}

resize, crop: how images are made one size: the shorter side scaled to `resize`, then the central square of `crop`
pixels. labels: the network's class for each folder of images, where it is not their place in the alphabet. num_classes:
of the network, where there are more than the folder has.

Without labels, folders are numbered by their place in the alphabet; but where all of them are named by whole numbers,
those are the labels.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anisocert.errors import ArgumentError
from anisocert.inputs import MOST_CLASSES, read_regular

FILE = "images.json"
KEYS = ("resize", "crop", "labels", "num_classes")
LARGEST = 1 << 24  # bytes of the file
MOST = {"resize": 1 << 14, "crop": 1 << 12, "num_classes": MOST_CLASSES}
NUMBER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Notes:
    """What the file says."""

    resize: int | None = None
    crop: int | None = None
    labels: dict[str, int] = field(default_factory=dict)
    num_classes: int | None = None


def read_notes(folder: Path) -> Notes:
    """A folder's notes; empty ones where it has none."""
    path = folder / FILE
    if not path.exists():
        return Notes()
    try:
        content = json.loads(read_regular(path, LARGEST).decode())
    except ArgumentError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError(f"expected JSON in {path}, got: {error}") from error
    if not isinstance(content, dict) or (unknown := sorted(set(content) - set(KEYS))):
        got = "no object" if not isinstance(content, dict) else ", ".join(unknown)[:100]
        raise ArgumentError(f"expected an object with some of {', '.join(KEYS)} in {path}, got {got}")
    for name, most in MOST.items():
        if content.get(name) is not None and not _whole(content[name], 1, most):
            got = str(content[name])[:100]
            raise ArgumentError(f"expected {name} in {path} as a whole number from 1 to {most:,}, got {got}")
    if (content.get("crop") or 0) > (content.get("resize") or MOST["resize"]):
        raise ArgumentError(f"expected crop <= resize in {path}, got {content['crop']} and {content['resize']}")
    labels = content["labels"] = content.get("labels") or {}
    if not isinstance(labels, dict) or not all(_whole(label, 0, MOST_CLASSES - 1) for label in labels.values()):
        raise ArgumentError(
            f"expected labels in {path} as a whole number below {MOST_CLASSES:,} for each folder, "
            f"got {str(labels)[:100]}"
        )
    return Notes(**content)


def labelled(notes: Notes, folders: tuple[str, ...], path: Path) -> tuple[list[int], tuple[str, ...]]:
    """(class of each folder of images, name of each class)."""
    if not notes.labels:
        numbers = _own_numbers(folders, path) or list(range(len(folders)))
    elif missing := [name for name in folders if name not in notes.labels]:
        raise ArgumentError(f"expected a label for each folder in {path / FILE}, got none for {', '.join(missing[:5])}")
    else:
        numbers = [notes.labels[name] for name in folders]
    count = notes.num_classes or max(numbers) + 1
    if max(numbers) >= count:
        raise ArgumentError(f"expected labels below num_classes {count} in {path / FILE}, got {max(numbers)}")
    shared: dict[int, list[str]] = {}
    for name, number in zip(folders, numbers, strict=True):
        shared.setdefault(number, []).append(printable(name))
    return numbers, tuple(", ".join(shared.get(label, [str(label)])) for label in range(count))


def named_by_numbers(folders: tuple[str, ...]) -> bool:
    """Whether all folders have whole numbers for names, which then are the labels."""
    return all(NUMBER.fullmatch(name) for name in folders)


def _own_numbers(folders: tuple[str, ...], path: Path) -> list[int] | None:
    """The numbers that all folders are named by; None if they have other names."""
    if not named_by_numbers(folders):
        return None
    unfit = [name for name in folders if len(name) > len(str(MOST_CLASSES)) or not 0 <= int(name) < MOST_CLASSES]
    numbers = [] if unfit else [int(name) for name in folders]
    if unfit or len(set(numbers)) < len(numbers):
        got = f"the folder {unfit[0][:50]}" if unfit else "several folders for one number"
        raise ArgumentError(
            f"expected labels from 0 to {MOST_CLASSES - 1:,} in {path}, as all its folders are named by whole numbers, "
            f"got {got}: rename them, or give each folder its label in {FILE}"
        )
    return numbers


def printable(name: str) -> str:
    """A name without anything a terminal would obey: line ends, escapes and broken characters are spelled out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
