"""A whole experiment: networks, runs and memories, from one TOML file, by the public commands."""

from anisocert.reproduce.matrix import read_matrix
from anisocert.reproduce.running import Outcome, run_stages
from anisocert.reproduce.stages import Stage

__all__ = ["Outcome", "Stage", "read_matrix", "run_stages"]
