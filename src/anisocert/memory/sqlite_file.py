"""Where a memory file may lie: a regular file, and never a name that SQLite takes for something else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from anisocert.errors import ArgumentError
from anisocert.inputs import kind_of


def checked(path: str | Path) -> Path:
    """The path of a file that is there or may be made; an error if promises could not be kept there."""
    name = Path(path).name
    if not str(path) or name == ":memory:" or name.startswith("file:") or str(path).startswith("file:"):
        raise ArgumentError(
            f"expected the path of a file for the memory, got {str(path)!r}: SQLite may keep nothing there. For a "
            "memory that ends with the process, use Memory()"
        )
    path = Path(path)
    try:
        kind = kind_of(path.stat().st_mode)
    except FileNotFoundError:
        if path.is_symlink():
            raise ArgumentError(f"expected a file for the memory, got {path}, a link to nothing") from None
        return path
    if kind is not None:
        raise ArgumentError(f"expected a file for the memory, got {path}, {kind}")
    return path


def create(path: Path) -> None:
    """An empty file that only its owner may read, unless there is one."""
    if path.exists():
        return
    # Never by opening the path itself: closing it again would release the locks that another connection of this process
    # may hold by then.
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent)
    except OSError as error:  # which names the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from error
    os.close(handle)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)


def still(path: Path) -> bool:
    """Whether a file can be read only as one that nobody changes.

    SQLite makes two files beside one that it reads, to see what others write. In a folder where it may not, and where
    nobody has made them, nobody writes at this moment.
    """
    may_write = os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return not may_write and not log(path).exists()


def log(path: Path) -> Path:
    """The write-ahead log beside a memory."""
    return path.with_name(path.name + "-wal")


def identity(path: Path, unchanged: bool) -> tuple[int | bool, ...] | None:
    """Which file a path names at this moment. unchanged: and in which state."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    state = (found.st_size, found.st_mtime_ns, log(path).exists()) if unchanged else ()
    return (found.st_dev, found.st_ino, *state)


def read_only_uri(path: Path, unchanged: bool) -> str:
    """The name by which SQLite opens a file and never writes to it."""
    return f"file:{quote(str(path.absolute()))}?mode=ro" + ("&immutable=1" if unchanged else "")
