"""A memory in PostgreSQL, with all of its SQL: the store, its place, its connection and its tables."""

from anisocert.memory.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
