"""A run on disk."""

from anisocert.runs.configuration import Configuration
from anisocert.runs.folder import row, save_run
from anisocert.runs.job import Job, load_job
from anisocert.runs.memory import add_to_memory
from anisocert.runs.reading import StoredRun, read_run
from anisocert.runs.running import Circumstances, Outcome, certify_run

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
