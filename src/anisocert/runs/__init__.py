"""A run on disk."""

from anisocert.runs._sources import NotTheRunsError
from anisocert.runs.attacked import AttackedFirst
from anisocert.runs.attacked_file import write_attacked
from anisocert.runs.configuration import Configuration
from anisocert.runs.rows import row
from anisocert.runs.stored import StoredRun, read_run, run_of

__all__ = [
    "AttackedFirst", "Configuration", "NotTheRunsError", "StoredRun", "read_run", "row", "run_of", "write_attacked",
]  # fmt: skip
