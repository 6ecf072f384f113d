"""What a folder of images says about itself, in FOLDER/images.json, all of it optional:

    {"resize": 256, "crop": 224, "labels": {"cat": 281, "dog": 207}, "num_classes": 1000}

resize, crop: how images become of one size: the shorter side scaled to `resize`, then the central square of `crop`
pixels. labels: the network's class for each folder of images, where it is not their place in the alphabet. num_classes:
of the network, where there are more than the folder has.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anisocert.errors import ArgumentError

FILE = "images.json"
KEYS = ("resize", "crop", "labels", "num_classes")


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
    if not path.is_file():
        return Notes()
    try:
        said = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ArgumentError(f"expected JSON in {path}, got: {error}") from error
    if not isinstance(said, dict) or (unknown := sorted(set(said) - set(KEYS))):
        got = "no object" if not isinstance(said, dict) else ", ".join(unknown)
        raise ArgumentError(f"expected an object with some of {', '.join(KEYS)} in {path}, got {got}")
    for name in ("resize", "crop", "num_classes"):
        if said.get(name) is not None and not _whole(said[name], 1):
            raise ArgumentError(f"expected {name} in {path} as a whole number above 0, got {said[name]!r}")
    labels = said.get("labels", {})
    if not isinstance(labels, dict) or not all(_whole(label, 0) for label in labels.values()):
        raise ArgumentError(f"expected labels in {path} as a whole number for each folder, got {labels!r}")
    return Notes(**said)


def labelled(notes: Notes, folders: tuple[str, ...], path: Path) -> tuple[list[int], tuple[str, ...]]:
    """(class of each folder of images, name of each class)."""
    if not notes.labels:
        numbers = list(range(len(folders)))
    elif missing := [name for name in folders if name not in notes.labels]:
        raise ArgumentError(f"expected a label for each folder in {path / FILE}, got none for {', '.join(missing[:5])}")
    else:
        numbers = [notes.labels[name] for name in folders]
    count = notes.num_classes or max(numbers) + 1
    if max(numbers) >= count:
        raise ArgumentError(f"expected labels below num_classes {count} in {path / FILE}, got {max(numbers)}")
    names = [str(label) for label in range(count)]
    for label in set(numbers):
        names[label] = ", ".join(name for name, number in zip(folders, numbers, strict=True) if number == label)
    return numbers, tuple(names)


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
