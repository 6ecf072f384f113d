"""A run on disk."""

from anisocert.runs.folder import row, save_run

__all__ = ["row", "save_run"]
