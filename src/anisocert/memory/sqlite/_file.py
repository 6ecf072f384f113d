"""A memory's file: where it may be, which one it is, and that it is not someone else's."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.inputs import kind_of
from anisocert.memory.errors import BrokenMemoryError, NoFolderError
from anisocert.memory.sqlite._schema import APPLICATION_ID
from anisocert.shell import shell_quote

WAIT_SECONDS: Final = 60.0
CREATED_SECONDS: Final = 1.0
MOUNTS: Final = Path("/proc/self/mountinfo")
JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")  # at the end of a journal, after the name of another


def file_at(path: str | Path) -> Path:
    """The path of a file that exists or may be created; an error if promises could not be kept there."""
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


def expect_folder(path: Path) -> None:
    """An error if a file cannot be made because its folder is missing."""
    if not path.parent.is_dir():
        raise NoFolderError(
            f"expected a memory in a folder that exists, got {path}: mkdir -p {shell_quote(str(path.parent))}"
        )


def create(path: Path) -> None:
    """Create an empty file that only its owner may read, unless one exists."""
    if path.exists():
        return
    expect_folder(path)
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


def refuse_second_name(path: Path) -> None:
    """An error if a file has two names (hard links): under the other one, SQLite keeps a second log and other locks."""
    deadline = time.monotonic() + CREATED_SECONDS
    while (names := path.stat().st_nlink) > 1:
        if time.monotonic() > deadline:  # not just made by another process, which gives it its name in two steps
            raise ArgumentError(
                f"expected a memory with one name, got {path}, a file with {names} (hard links): who uses another name "
                f"sees nothing of what is promised under this one. Remove the others (find FOLDER -samefile "
                f"{shell_quote(str(path))}), and copy a memory by SQLite's .backup"
            )
        time.sleep(0.01)


def refuse_mounted(path: Path) -> None:
    """An error if a file is mounted without its folder, as into a container: its log is not where others look."""
    place = str(path.resolve()).translate({ord(character): f"\\{ord(character):03o}" for character in "\\ \t\n"})
    with suppress(OSError):  # on other systems than Linux
        if any(line.split()[4:5] == [place] for line in MOUNTS.read_text(errors="surrogateescape").splitlines()):
            raise ArgumentError(
                f"expected a memory whose folder is mounted, got {path}, a file that is mounted alone: its log, with "
                "the newest promises, would lie elsewhere, and may be lost. Mount the folder"
            )


def still(path: Path) -> bool:
    """Whether a file can be read only by assuming that nothing changes it.

    SQLite makes two files beside one that it reads, to see what others write. In a folder where it may not, and where
    nobody has made them, nobody is writing at this moment.
    """
    may_write = os.access(path.resolve().parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return not may_write and not log(path).exists()


def log(path: Path) -> Path:
    """The write-ahead log beside a memory; where the path is a link, beside the file that it leads to."""
    place = path.resolve()
    return place.with_name(place.name + "-wal")


def identity(path: Path, unchanged: bool) -> tuple[int | bool, ...] | None:
    """Which file a path names at this moment. unchanged: also in which state."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AnisocertError(f"cannot use the memory {path}: {error.strerror}") from error
    state = (status.st_size, status.st_mtime_ns, log(path).exists()) if unchanged else ()
    return (status.st_dev, status.st_ino, *state)


def read_only_uri(path: Path, unchanged: bool) -> str:
    """The name by which SQLite opens a file and never writes to it."""
    return f"file:{quote(str(path.absolute()))}?mode=ro" + ("&immutable=1" if unchanged else "")


def refuse_foreign(path: Path) -> None:
    """An error if a file is not a memory, before SQLite makes a log beside it and leaves it there.

    SQLite itself must open it: closing a file opened in any other way would release locks that another connection of
    this process may hold.
    """
    with explained(path), closing(sqlite3.connect(read_only_uri(path, unchanged=True), uri=True)) as db:
        try:
            application_id = db.execute("PRAGMA application_id").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            return  # a memory looks like this, without its log, if a process was killed while merging the log into it
    if application_id != APPLICATION_ID:
        got = "another database" if path.stat().st_size else "an empty file"
        raise ArgumentError(f"expected a certificate memory, got {got}, {path}")


def refuse_hostile_journal(path: Path) -> None:
    """An error if what lies beside a memory would make SQLite wait for ever, or remove another file.

    A transaction that was cut short is undone from a journal, whose end may name a journal of several databases, which
    SQLite then removes: any file, if somebody else wrote the journal. A memory is one database, and never names one.
    """
    place = path.resolve()  # beside which SQLite looks
    for suffix in ("-journal", "-wal", "-shm"):
        beside = place.with_name(place.name + suffix)
        with suppress(FileNotFoundError):
            if (kind := kind_of(beside.lstat().st_mode)) is not None:
                raise ArgumentError(f"expected a file of SQLite's at {beside}, got {kind}: remove it")
    journal = place.with_name(f"{place.name}-journal")
    with suppress(FileNotFoundError), journal.open("rb") as file:
        file.seek(max(0, journal.stat().st_size - len(JOURNAL_MAGIC)))
        if file.read() == JOURNAL_MAGIC:
            raise ArgumentError(
                f"expected a journal of this memory alone at {journal}, got one that names another file, which SQLite "
                "would remove: nothing of anisocert's writes such a journal. If somebody sent it, remove it"
            )


@contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        why = str(error)
        if "locked" in why:
            why = f"another process has kept it locked for {WAIT_SECONDS:.0f} seconds"
        elif getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
            why += ": it needs a user who may write the file, and into its folder, where SQLite keeps its log"
        raise AnisocertError(f"cannot use the memory {path or 'of this process'}: {why}") from error
    except sqlite3.ProgrammingError as error:
        why = "it was closed: use one that is open" if "closed" in str(error) else str(error)
        raise AnisocertError(f"cannot use the memory {path or 'of this process'}: {why}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise BrokenMemoryError(f"{path} is not a memory, or is damaged: {error}") from error
