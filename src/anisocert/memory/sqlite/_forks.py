"""Files that were open when this process was forked: SQLite, which knows nothing of forks, must not touch them again.

It holds its locks for a process, and a fork inherits the belief in them, not the locks. A second connection to such a
file would write beside other processes, and the end of the inherited one would remove their log, promises and all.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from anisocert.errors import AnisocertError

FORKED: Final = (
    "a memory cannot be used in a forked process, nor can its file be opened there: close it before the fork and open "
    "it after that, or start processes by spawn"
)
File = tuple[int, int]  # device and inode


class Connection(sqlite3.Connection):
    """SQLite's, which is known to be open from `remember` on."""

    def close(self) -> None:
        """End it."""
        super().close()
        _open.pop(self, None)


_open: WeakKeyDictionary[Connection, File] = WeakKeyDictionary()
_inherited: set[File] = set()


def remember(db: Connection, path: Path) -> None:
    """Note which file a connection has open."""
    _open[db] = _file(path)


def refuse_inherited(path: Path) -> None:
    """An error if a file was open when this process was forked."""
    if path.exists() and _file(path) in _inherited:
        raise AnisocertError(f"cannot use the memory {path}: {FORKED}")


def _file(path: Path) -> File:
    status = path.stat()
    return status.st_dev, status.st_ino


def _in_child() -> None:
    for db, file in list(_open.items()):
        _inherited.add(file)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))  # never closed, not even as the process ends
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
