"""Groups of inputs whose attack is done, in a file beside the run: an attack that was stopped goes on from them.

Each group is kept under a key of all that its result depends on: the run, the network, the inputs, the radii, the
options, and the versions and kind of device that attack. What is kept of another attack is never used. Nor is a damaged
file, or one that came with the run from somebody who would like it to have withstood more: the file is sealed with a
secret of this user.
"""

import dataclasses
import hashlib
import json
import os
import warnings
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
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.inputs import read_regular
from anisocert.runs import StoredRun
from anisocert.runs.files import MOST_BYTES
from anisocert.runs.versions import versions
from anisocert.seals import opened, sealed, secret

FILE = "attacking-first.kept"


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


NAMES = tuple(field.name for field in dataclasses.fields(Part))


def joined(parts: Sequence[Part], name: str) -> NDArray[Any]:
    """One field of all groups, in their order."""
    return np.concatenate([getattr(part, name) for part in parts])


def key_of(run: StoredRun, network: Network, clean: Clean, radii: NDArray[np.float64], how: Search, n: int) -> str:
    """Names the attack on one group: the same only where everything is that its result depends on."""
    guide = None if how.guide is None else how.guide.hash
    options = {field.name: getattr(how, field.name) for field in dataclasses.fields(how) if field.name != "guide"}
    here = {**versions(), "device": network.device.type}  # the description has those that the run was made with
    dependencies = [run.description, network.hash, here, guide, options, n, radii.tolist(), clean.ids]
    return hashlib.sha256(json.dumps(dependencies, sort_keys=True).encode() + clean.x.tobytes()).hexdigest()


class Kept:
    """The groups that are done. path: their file; None keeps nothing, nor does one that cannot be written."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._secret, self._before = path, b"", dict[str, Part]()
        self._done = dict[str, Part]()
        if path is None:
            return
        try:
            self._secret = secret()
        except ArgumentError as error:
            self._keep_nothing(error)
        else:
            self._before = _read(path, self._secret)

    def get(self, key: str, clean: Clean, radii: int) -> Part | None:
        """The group of this key; None if it is not done. What was done after such a one is not used either."""
        part = self._before.get(key)
        if part is None or not _fits(part, clean, radii):
            self._before = {}
            return None
        self._done[key] = part
        return part

    def add(self, key: str, part: Part) -> None:
        """Keep a group beside those of the same attack; it is on disk when this returns."""
        self._done[key] = part
        if self._path is None:
            return
        from safetensors.numpy import save

        content = sealed(self._secret, save({
            f"{key}.{name}": np.ascontiguousarray(getattr(group, name))
            for key, group in self._done.items() for name in NAMES
        }))  # fmt: skip
        try:
            write_whole(self._path, lambda part: part.write_bytes(content), private=True)
        except (ArgumentError, OSError) as error:
            self._keep_nothing(error)

    def _keep_nothing(self, error: Exception) -> None:
        warnings.warn(
            f"{error}: if this attack is stopped, it begins anew, as nothing is kept in {self._path}",
            AnisocertWarning,
            stacklevel=4,
        )
        self._path = None


def _read(path: Path, key: bytes) -> dict[str, Part]:
    """What an earlier attack of this user has left; nothing where there is no such file, or another."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not os.path.lexists(path):
        return {}
    try:
        content = opened(key, read_regular(path, MOST_BYTES, below=path.parent))
        if content is not None:
            arrays = load(content)
            keys = dict.fromkeys(name.partition(".")[0] for name in arrays)
            return {group: Part(*(arrays[f"{group}.{name}"] for name in NAMES)) for group in keys}
    except (ArgumentError, OSError, KeyError, SafetensorError):
        pass
    warnings.warn(
        f"expected what an attack by this user has left in {path}, got a damaged file or somebody else's: it is not "
        "used, and the attack begins anew",
        AnisocertWarning,
        stacklevel=4,
    )
    return {}


def _fits(part: Part, clean: Clean, radii: int) -> bool:
    """Whether the arrays have the types and the shapes of a result for these inputs."""
    column, x = (len(clean),), clean.x.shape
    wanted = (
        ("int64", column), ("int64", column), ("float64", column), ("int64", (*column, radii)), ("int64", column),
        ("float32", x), ("float32", x), ("float64", (part.errors.size,)), ("int64", (1,)),
    )  # fmt: skip
    arrays = (getattr(part, name) for name in NAMES)
    return all((array.dtype, array.shape) == fit for array, fit in zip(arrays, wanted, strict=True))
