"""Regions beside their inputs: how much of them is in the domain of valid inputs; which reach as far as they may."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.geometry import Region
from anisocert.optimize.reach import extent, reach

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

NEARLY = 0.9  # of the reach: candidates differ by a tenth
REACH = (
    "reaches as far as the search allows, about half the way to a blank image: with more noise a network may answer "
    "one class whatever the input, which is not a certificate that anybody wants"
)


def at_reach(region: Region) -> bool:
    """Whether the reach is what kept a region from growing; never so for inputs that are no images."""
    farthest = reach(torch.from_numpy(region.center.copy()).unsqueeze(0), region.norm)[0]
    return bool(extent(torch.from_numpy(region.axes.copy()).flatten(), region.norm) >= NEARLY * farthest)


def room(
    run: StoredRun, inputs: Callable[[list[int]], NDArray[np.float32]], domain: tuple[float, ...] | None
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """(at its reach, proxy radius inside the domain) of each row's region; 0 without one. inputs: those of some ids."""
    places = {int(number): place for place, number in enumerate(run.column("idx"))}
    reached, inside = np.zeros(len(run), bool), np.zeros(len(run))
    for number in run.thetas:
        region = run.region(number, inputs([number])[0])
        if region is None:
            continue
        reached[places[number]] = at_reach(region)
        if domain is not None:
            inside[places[number]] = region.proxy_radius_inside(domain[0], domain[1])
    return reached, inside
