"""Groups of inputs whose attack is done, in a file beside the run: an attack that was stopped goes on from them.

Each group is kept under a key of all that its result depends on: the run, the network, the inputs, the radii and the
options. What is kept of another attack is never used; nor is a damaged file, as nothing is lost with it but time.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.attack._clean import Clean
from anisocert.attack.search import Search
from anisocert.durable import write_whole
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.inputs import opened_regular
from anisocert.runs import StoredRun
from anisocert.runs.files import MOST_BYTES

FILE = "attacking-first.safetensors"


@dataclass(frozen=True, eq=False)
class Part:
    """What is kept of a group of inputs: see FirstAttack, of which deepest is `inside`, and AttackedFirst.

    errors: probabilities, of those that may explain another class. questions: `1`, how many were asked.
    """

    labels: NDArray[np.int64]
    promised: NDArray[np.int64]
    radius: NDArray[np.float64]
    answers: NDArray[np.int64]
    inside: NDArray[np.int64]
    points: NDArray[np.float32]
    deepest: NDArray[np.float32]
    errors: NDArray[np.float64]
    questions: NDArray[np.int64]


NAMES = tuple(one.name for one in dataclasses.fields(Part))


def joined(parts: Sequence[Part], name: str) -> NDArray[Any]:
    """One field of all groups, in their order."""
    return np.concatenate([getattr(part, name) for part in parts])


def key_of(run: StoredRun, network: Network, clean: Clean, radii: NDArray[np.float64], how: Search, n: int) -> str:
    """Names the attack on one group: the same only where everything is that its result depends on."""
    guide = None if how.guide is None else how.guide.hash
    options = {one.name: getattr(how, one.name) for one in dataclasses.fields(how) if one.name != "guide"}
    said = [run.description, network.hash, guide, options, n, radii.tolist(), clean.ids]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode() + clean.x.tobytes()).hexdigest()


class Kept:
    """The groups that are done. path: their file; None keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._before = path, {} if path is None else _read(path)
        self._done = dict[str, Part]()

    def get(self, key: str) -> Part | None:
        """The group of this key; None if it is not done."""
        if (found := self._before.get(key)) is not None:
            self._done[key] = found
        return found

    def add(self, key: str, part: Part) -> None:
        """Keep a group beside those of the same attack; it is on disk when this returns."""
        self._done[key] = part
        if self._path is None:
            return
        from safetensors.numpy import save

        content = save({
            f"{key}.{name}": np.ascontiguousarray(getattr(one, name))
            for key, one in self._done.items() for name in NAMES
        })  # fmt: skip
        write_whole(self._path, lambda part: part.write_bytes(content))


def _read(path: Path) -> dict[str, Part]:
    """What an earlier attack has left; nothing where there is no such file, or another."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        with opened_regular(path, MOST_BYTES, below=path.parent) as file:
            arrays = load(file.read())
        keys = dict.fromkeys(name.partition(".")[0] for name in arrays)
        return {key: Part(*(arrays[f"{key}.{name}"] for name in NAMES)) for key in keys}
    except (ArgumentError, OSError, KeyError, SafetensorError):
        return {}
