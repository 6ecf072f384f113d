"""A run on disk."""

from anisocert.runs.configuration import Configuration
from anisocert.runs.rows import row
from anisocert.runs.stored import StoredRun, read_run

__all__ = ["Configuration", "StoredRun", "read_run", "row"]
