"""Files that are whole or not there, whatever happens to the process, and locks that end with it."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anisocert.errors import AnisocertError


class BusyError(AnisocertError):
    """Another process holds the lock."""


def write_whole(path: Path, write: Callable[[Path], object], private: bool = False) -> None:
    """Have `write` fill a file beside `path`, bring it to the disk, then put it in place in one step.

    private: readable and writable by its owner only.
    """
    part = path.with_name(f"{path.name}.{os.uname().nodename}-{os.getpid()}.part")
    try:
        if private:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        write(part)
        to_disk(part)
        part.replace(path)
    except OSError as error:  # pyarrow's do not say which file
        raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), str(path)) from error
    finally:
        part.unlink(missing_ok=True)
    to_disk(path.parent)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock that ends with the process, even if it is killed. wait=False: BusyError where it is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(f"expected {path} to be free, got a lock of another process") from error
        yield


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
