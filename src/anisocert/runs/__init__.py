"""A run on disk."""

from anisocert.runs.configuration import Configuration
from anisocert.runs.folder import save_run
from anisocert.runs.job import Job, load_job
from anisocert.runs.memory import add_to_memory
from anisocert.runs.rows import row
from anisocert.runs.running import Circumstances, Outcome, certify_run
from anisocert.runs.stored import StoredRun, read_run

__all__ = [
    "Circumstances",
    "Configuration",
    "Job",
    "Outcome",
    "StoredRun",
    "add_to_memory",
    "certify_run",
    "load_job",
    "read_run",
    "row",
    "save_run",
]
