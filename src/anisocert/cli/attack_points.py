"""The points that an attack found, in an .npz file that a later attack may replace."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from anisocert.durable import claim, write_whole


def expect_place(out: Path, force: bool) -> None:
    """An error before the attack, not after it, if its points cannot be written there."""
    claim(out, force)
    out.parent.mkdir(parents=True, exist_ok=True)


def write_points(out: Path, arrays: dict[str, Any]) -> None:
    """Arrays by name, completely or not at all."""
    write_whole(out, lambda part: _fill(part, arrays))


def _fill(part: Path, arrays: dict[str, Any]) -> None:
    with part.open("wb") as file:
        np.savez_compressed(file, **arrays)
    with zipfile.ZipFile(part, "a") as archive:
        archive.comment = b"\0anisocert attack\0"  # by which `claim` recognises it
