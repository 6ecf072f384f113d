"""Many rows of numbers in float32, in pieces, so that growing never copies what is there."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from anisocert.rounding import float32_up

Floats = NDArray[np.float64]

# A piece is untouched memory, which costs nothing, until rows are written into it.
_PIECE_BYTES: Final = 16 << 20
_MOST_ROWS: Final = 1 << 16


class FloatRows:
    """Rows of `dim` float64 numbers, held in half the space where that is safe.

    rounding: "exact" for rows that must not change (inputs, which nearly always are float32 numbers): a piece with any
    other row becomes float64. "up" for rows that may grow (semi-axes of a region that is only asked whether something
    is disjoint from it, where larger is careful).
    """

    def __init__(self, dim: int, rounding: Literal["exact", "up"]) -> None:
        self._dim = dim
        self._up = rounding == "up"
        self._per_piece = min(max(_PIECE_BYTES // (4 * dim), 1), _MOST_ROWS)
        self._pieces: list[NDArray[Any]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, without the unused rest of the last piece."""
        sizes = [piece.itemsize for piece in self._pieces]
        whole = self._count // self._per_piece
        rest = self._count % self._per_piece * sizes[whole] if whole < len(sizes) else 0
        return self._dim * (sum(sizes[:whole]) * self._per_piece + rest)

    def append(self, row: Floats) -> None:
        """Add a row of `dim` numbers."""
        number, place = divmod(self._count, self._per_piece)
        if number == len(self._pieces):
            self._pieces.append(np.empty((self._per_piece, self._dim), np.float32))
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = float32_up(row) if self._up else row.astype(np.float32)
            fits = np.isfinite(narrow).all() if self._up else (narrow == row).all()
            if not fits and self._pieces[number].dtype == np.float32:
                self._pieces[number] = self._pieces[number].astype(np.float64)
        piece = self._pieces[number]
        piece[place] = narrow if piece.dtype == np.float32 else row
        self._count += 1

    def truncate(self, count: int) -> None:
        """Forget all rows but the first `count`."""
        self._count = count
        del self._pieces[-(-count // self._per_piece) :]

    def __getitem__(self, rows: Any) -> Floats:
        """Row `rows` (an int), or the rows of an array of numbers: `m x dim`, float64."""
        numbers = np.atleast_1d(np.asarray(rows))
        result = np.empty((len(numbers), self._dim))
        pieces, places = np.divmod(numbers, self._per_piece)
        for number in np.unique(pieces):
            chosen = pieces == number
            result[chosen] = self._pieces[number][places[chosen]]
        return result if np.ndim(rows) else result[0]
