"""A run on disk."""

from anisocert.runs.configuration import Configuration
from anisocert.runs.rows import row
from anisocert.runs.stored import NotTheRunsError, StoredRun, read_run, run_of

__all__ = ["Configuration", "NotTheRunsError", "StoredRun", "read_run", "row", "run_of"]
