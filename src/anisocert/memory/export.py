"""All entries of a memory as one `.npz` file, written as it is read: a memory may be larger than what fits in RAM."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from anisocert.memory.ledger import Ledger

_NUMBERS: Final = {
    "id": np.int64,
    "prediction": np.int64,
    "votes": np.int64,
    "alpha": np.float64,
    "radius": np.float64,
    "proxy_radius": np.float64,
    "time": np.float64,
}


def export(ledger: Ledger, path: Path, inputs: bool) -> int:
    """Write the entries, asked inside a transaction.

    Arrays: id, prediction, votes, alpha, radius, proxy_radius, time (`n`), method, note (`n` texts), axes (`n x shape`,
    float64), head (a JSON text) and, if wanted, center (`n x shape`, float32 or, where needed, float64).
    """
    store, head, count = ledger.store, ledger.head, len(ledger.index)
    shape = head.shape or ()
    part = path.with_name(path.name + ".part")
    with zipfile.ZipFile(part, "w") as archive:
        for name, kind in _NUMBERS.items():
            values = np.array([row[0] for row in store.select(f"SELECT {name} FROM entries ORDER BY number")], kind)
            _write(archive, name, kind, (count,), iter([values.tobytes()]))
        for name in ("method", "note"):
            texts = np.array([row[0] for row in store.select(f"SELECT {name} FROM entries ORDER BY number")], np.str_)
            _write(archive, name, texts.dtype, (count,), iter([texts.tobytes()]))
        _write(
            archive, "axes", "<f8", (count, *shape), (region.axes.tobytes() for _, _, region in store.after(0, head))
        )
        if inputs:
            longest = store.select("SELECT coalesce(max(length(center)), 0) FROM entries")[0][0]
            precision = "<f4" if longest == 4 * math.prod(shape) else "<f8"
            centers = (region.center.astype(precision).tobytes() for _, _, region in store.after(0, head))
            _write(archive, "center", precision, (count, *shape), centers)
        text = np.array(json.dumps(asdict(head)))
        _write(archive, "head", text.dtype, (), iter([text.tobytes()]))
    part.replace(path)
    return count


def _write(
    archive: zipfile.ZipFile, name: str, kind: DTypeLike, shape: tuple[int, ...], pieces: Iterator[bytes]
) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            file.write(piece)
