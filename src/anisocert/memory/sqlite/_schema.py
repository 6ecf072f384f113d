"""The tables of a memory's file, and that nothing else is in it: a trigger or a view could answer in its place."""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import Final

from anisocert.memory import _head as head
from anisocert.memory._kinds import INDEXED, UNIQUE, columns, expect_tables

APPLICATION_ID: Final = 0x414E4943  # "ANIC"
VERSION: Final = 2

_TYPES: Final = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}


def _table(name: head.Table) -> str:
    (number, _), *rest = columns(name).items()
    parts = [f"{number} INTEGER PRIMARY KEY"]
    for column, (kind, needed) in rest:
        parts.append(f"{column} {_TYPES[kind]}{' NOT NULL' * needed}{' UNIQUE' * (column in UNIQUE.get(name, ()))}")
    return f"CREATE TABLE {name} ({', '.join(parts)})"


# To the letter as in every file that was ever made: `check` compares them.
_STATEMENTS: Final = (
    *map(_table, head.TABLES),
    *(f"CREATE INDEX {name} ON {table} ({column})" for table in INDEXED for name, column in INDEXED[table].items()),
    f"CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), {', '.join(head.COLUMNS)})",
)


def create(db: sqlite3.Connection) -> None:
    """Make the tables, inside a transaction."""
    for statement in _STATEMENTS:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def check(db: sqlite3.Connection) -> None:
    """An error unless the file has the tables of a memory, and nothing else."""
    expect_tables("the file", _objects(db), _expected())


def _objects(db: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    return frozenset(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall())


@cache
def _expected() -> frozenset[tuple[str, ...]]:
    db = sqlite3.connect(":memory:")
    try:
        create(db)
        return _objects(db)
    finally:
        db.close()
