"""All entries of a memory as one `.npz` file, written as they are read: a memory may be larger than RAM."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from anisocert.durable import claim, write_whole
from anisocert.memory._kinds import KINDS
from anisocert.memory._ledger import Ledger

_TYPES: Final[dict[Any, DTypeLike]] = {int: np.int64, float: np.float64, str: np.str_}
_COLUMNS: Final = ("id", "prediction", "votes", "alpha", "radius", "proxy_radius", "time", "method", "note")
_HEAD: Final = ("policy", "created", "model_hash", "norm", "shape", "lifetime", "entries", "submissions", "alphas")


def export(ledger: Ledger, path: Path, inputs: bool, force: bool) -> int:
    """Write the entries; called inside a transaction.

    Arrays: id, prediction, votes, alpha, radius, proxy_radius, time (`n`), method, note (`n` texts), axes (`n x shape`,
    float64), head (a JSON text) and, if wanted, center (`n x shape`, float32).
    """
    claim(path, force)
    write_whole(path, lambda part: _fill(ledger, part, inputs), private=True)
    return len(ledger.index)


def _fill(ledger: Ledger, part: Path, inputs: bool) -> None:
    head, count = ledger.head, len(ledger.index)
    shape = head.shape or ()
    with zipfile.ZipFile(part, "w") as archive:
        archive.comment = b"\0anisocert memory\0"  # by which `claim` recognises it
        for name in _COLUMNS:
            values = np.array([value for (value,) in ledger.columns(name)], _TYPES[KINDS["entries"][name]])
            _write(archive, name, values.dtype, (count,), iter([values.tobytes()]))
        regions = (ledger.exact(np.array([row]))[0] for row in range(count))
        _write(archive, "axes", "<f8", (count, *shape), (region.axes.tobytes() for region in regions))
        if inputs:
            regions = (ledger.exact(np.array([row]))[0] for row in range(count))
            _write(archive, "center", "<f4", (count, *shape), (r.center.astype("<f4").tobytes() for r in regions))
        text = np.array(json.dumps({name: getattr(head, name) for name in _HEAD}))
        _write(archive, "head", text.dtype, (), iter([text.tobytes()]))


def _write(
    archive: zipfile.ZipFile, name: str, kind: DTypeLike, shape: tuple[int, ...], pieces: Iterator[bytes]
) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            file.write(piece)
