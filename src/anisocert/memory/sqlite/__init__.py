"""A memory in an SQLite file, with all of its SQL: the store, its file and its tables."""

from anisocert.memory.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
