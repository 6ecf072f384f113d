"""A whole experiment: networks, runs and memories, from one TOML file, by the public commands."""

from anisocert.reproduce.matrix import Stage, read_matrix
from anisocert.reproduce.running import Outcome, run_stages

__all__ = ["Outcome", "Stage", "read_matrix", "run_stages"]
