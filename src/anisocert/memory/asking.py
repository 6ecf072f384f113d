"""What the stored promises say about a point or a region: which contain it, and how much room they leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import numpy as np

from anisocert.certificate import Certificate
from anisocert.errors import ArgumentError
from anisocert.geometry import NoRoomError, Region, Regions, disjoint, inner_copy, shrink_outside
from anisocert.memory._float_rows import Floats
from anisocert.memory._inside import inside
from anisocert.memory._ledger import Ledger
from anisocert.memory._shadow import Numbers
from anisocert.memory.errors import BrokenMemoryError

Prefer = Literal["volume", "ball"]

# Up to this many stored regions are read as promised; if a newcomer meets more, it makes room for the slightly larger
# ones of the index (by 1.2e-7 at most), which are in memory anyway.
_MOST_EXACT: Final = 2048


def covering(ledger: Ledger, point: Floats, near: Numbers) -> Certificate | None:
    """The promise whose region contains a point and leaves the largest copy around it; that copy is its region.

    A point on the boundary is covered, and has no copy: then the region is None.
    near: rows of the index that may contain it.

    Raises:
        BrokenMemoryError: the point lies in regions of two classes.
    """
    homes = _homes(ledger, point, near)
    if not homes:
        return None
    sizes = [-np.inf if copy is None else float(np.log(copy.axes).mean()) for _, copy in homes]
    best, copy = homes[int(np.argmax(sizes))]
    chosen = ledger.promise(best)
    for row, _ in homes:
        if ledger.index.classes(np.array([row]))[0] != chosen.prediction:
            other = ledger.promise(row)
            raise BrokenMemoryError(
                f"this memory is broken: an input lies in the regions of input {chosen.id}, class "
                f"{chosen.prediction}, and of input {other.id}, class {other.prediction}. Nothing may be answered "
                "from it; Memory.check and `anisocert memory check` name all such pairs"
            )
    return replace(chosen, region=copy, x=point)


def all_covering(ledger: Ledger, point: Floats) -> list[Certificate]:
    """Every promise whose region contains a point, with the copy of it around the point, or None on the boundary."""
    homes = _homes(ledger, point, ledger.index.near(point))
    return [replace(ledger.promise(row), region=copy, x=point) for row, copy in homes]


def _homes(ledger: Ledger, point: Floats, near: Numbers) -> list[tuple[np.intp, Region | None]]:
    rows = ledger.index.containing(point, near)
    regions = zip(rows, ledger.exact(rows), strict=True)
    return [(row, _copy(region, point)) for row, region in regions if inside(region, point)]


def _copy(region: Region, point: Floats) -> Region | None:
    try:
        return inner_copy(region, point)
    except ArgumentError:
        return None


def fit(ledger: Ledger, region: Region, own: int, near: Numbers, shrinks: bool, prefer: Prefer) -> Region | None:
    """The largest region inside this one that is disjoint from all those of other classes; None if there is no room.

    near: rows of the index that may meet it. shrinks: if False, it is this region or None.
    """
    rows = ledger.index.meeting(region, own, near)
    if not len(rows):
        return region
    obstacles = ledger.index.regions(rows)
    if len(rows) <= _MOST_EXACT:
        exact = ledger.exact(rows)
        obstacles = Regions(
            np.stack([stored.center for stored in exact]), np.stack([stored.axes for stored in exact]), region.norm
        )
    if not shrinks:
        return region if disjoint(obstacles, region).all() else None
    try:
        return shrink_outside(obstacles, region, prefer=prefer)
    except NoRoomError:
        return None
