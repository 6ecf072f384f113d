"""A run on disk."""

from anisocert.runs.configuration import Configuration
from anisocert.runs.folder import save_run
from anisocert.runs.rows import row
from anisocert.runs.stored import StoredRun, read_run

__all__ = ["Configuration", "StoredRun", "read_run", "row", "save_run"]
