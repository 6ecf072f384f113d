"""A run on disk."""

from anisocert.runs.folder import row, save_run
from anisocert.runs.memory import add_to_memory
from anisocert.runs.reading import StoredRun, read_run

__all__ = ["StoredRun", "add_to_memory", "read_run", "row", "save_run"]
