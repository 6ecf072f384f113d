"""Regions around an input and exact relations between them: numpy, float64, never optimistic."""

from anisocert.geometry.containment import inner_copy, superset
from anisocert.geometry.inscribed import inscribed_radius
from anisocert.geometry.region import Region
from anisocert.geometry.regions import Regions
from anisocert.geometry.relations import disjoint, distance, touch_scale
from anisocert.geometry.shrink import NoRoomError, shrink_outside

__all__ = [
    "NoRoomError", "Region", "Regions", "disjoint", "distance", "inner_copy", "inscribed_radius", "shrink_outside",
    "superset", "touch_scale",
]  # fmt: skip
