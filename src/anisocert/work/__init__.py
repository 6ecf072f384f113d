"""Making a run: shards, workers, resuming, merging."""

from anisocert.work.job import Job, load_job
from anisocert.work.memory import add_to_memory
from anisocert.work.running import Circumstances, Outcome, certify_run

__all__ = ["Circumstances", "Job", "Outcome", "add_to_memory", "certify_run", "load_job"]
