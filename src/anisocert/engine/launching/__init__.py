"""Calls of a network in fewer and quicker launches: compiled by torch, or replayed as CUDA graphs.

Where one cannot be made, or does not pay, the calls stay as they are.
"""

from anisocert.engine.launching.capture import Work, captured
from anisocert.engine.launching.compiling import compiled, compiled_if_works, pays
from anisocert.engine.launching.passes import ReplayedPasses, replayed_passes
from anisocert.engine.launching.replaying import Replayed, replayed

__all__ = [
    "Replayed", "ReplayedPasses", "Work", "captured", "compiled", "compiled_if_works", "pays", "replayed",
    "replayed_passes",
]  # fmt: skip
