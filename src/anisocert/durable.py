"""Files that are complete or absent, whatever happens to the process, and locks that end with it."""

import contextlib
import functools
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.inputs import NO_LINK, expect_owner, kind_of, opened_regular

TEMPORARY = ".anisocert-{}.part"  # short, whatever the file's own name; hidden from patterns such as *.safetensors
ABANDONED = 3600.0  # seconds without a write, after which a temporary file may have been left behind
WINDOWS = os.name == "nt"  # where a lock keeps others from writing, and open files cannot be replaced or removed
MARKS = (
    b'<meta name="generator" content="anisocert',  # reports and evidence pages
    b"Software\0anisocert",  # PNG
    b"/Creator (anisocert)",  # PDF
    b'"__metadata__":{"anisocert":',  # networks
    b"\x12\x09anisocert",  # the producer of an ONNX file
    b"\0id,label,answer\n",  # what `predict` writes, as CSV
    b'\0{\n  "made_by": "anisocert',  # and as JSON
    b"\ttime\tnorm\tmethod\n",  # what `export` writes, in each layout
    b"\0anisocert memory\0",  # what `memory export` writes: the comment of the archive
    b"\0anisocert attack\0",  # and `attack --out`
)
LOOKED_AT = 4096  # bytes at either end, where all of them are; a 0 stands for the beginning


class BusyError(AnisocertError):
    """Another process holds the lock."""


def write_whole(path: Path, write: Callable[[Path], object], private: bool = False) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to disk, then move it into place in one step.

    Nobody can predict the temporary file's name, so no link can lie in wait there. What is at `path` is
    replaced only if it is a regular file. private: readable and writable by its owner only.
    """
    mode = _mode(path, private)
    with _named(path):
        _sweep(path.parent)
        descriptor, part = _temporary(path.parent, 0o666 if mode is None else 0o600)
        try:
            try:
                write(part)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if mode is not None:
                part.chmod(mode)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        to_disk(path.parent)


def claim(path: Path, force: bool = False) -> None:
    """Refuse to have `path` replaced by a command unless nothing is there, or an empty file, or one of this program's.

    Files of ours carry a mark. force: any regular file may be replaced; devices, links and the like never.
    """
    if not _replaceable(path) or force or path.stat().st_size == 0:
        return
    with opened_regular(path, below=path.parent) as file:
        ends = b"\0" + file.read(LOOKED_AT)
        file.seek(max(0, path.stat().st_size - LOOKED_AT))
        ends += file.read(LOOKED_AT)
    if not any(mark in ends for mark in MARKS):
        raise ArgumentError(
            f"expected nothing at {path}, or a file that anisocert recognises as its own, got another: choose another "
            "name, or replace it with --force (force=True)"
        )


def refuse_link(folder: Path) -> None:
    """An error if a folder of ours is a link: what is replaced and removed in it would be someone else's."""
    if folder.is_symlink():
        raise ArgumentError(
            f"expected a folder, or nothing, at {folder}, got a link: remove the link, or use another folder around it"
        )


@contextmanager
def locked(path: Path, wait: bool = True, busy: str | None = None, private: bool = False) -> Iterator[int]:
    """Hold a lock that ends with the process, even if it is killed. wait=False: BusyError, which says `busy`, if held.

    path: a file for this alone, created if absent. It is empty and stays, which does no harm; whoever
    holds the lock may remove it. Yields its descriptor: a child that inherits it holds the lock too, until both end.
    private: nobody but its owner may open the file, as whoever may read it can hold the lock for as long as he likes.
    """
    busy = busy or f"expected {path} to be free, got a lock held by another process"
    descriptor = _lock(path, wait, busy, private)
    while not _is_at(descriptor, path):  # it was removed while this process waited: the lock is now a different file
        os.close(descriptor)
        descriptor = _lock(path, wait, busy, private)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def to_disk(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk; Windows flushes names by itself."""
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replaceable(path: Path) -> bool:
    """Whether a regular file is there; an error if something is there that must not be replaced."""
    try:
        kind = kind_of(path.lstat().st_mode)
    except FileNotFoundError:
        return False
    if kind is not None:
        inside = ": name a file in it" if path.is_dir() and not path.is_symlink() else ""
        raise ArgumentError(f"expected a regular file, or nothing, at {path}, got {kind}{inside}")
    return True


def _mode(path: Path, private: bool) -> int | None:
    """Who may read the new file: its owner, or those who could read the previous one; None: as the umask says."""
    exists = _replaceable(path)
    return 0o600 if private else stat.S_IMODE(path.lstat().st_mode) & 0o777 if exists else None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Make errors name the requested file: pyarrow's name none, others the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), str(path)) from error


def _temporary(folder: Path, mode: int) -> tuple[int, Path]:
    """A new file, locked to show that its writer is alive; on Windows, being open shows that."""
    while True:
        part = folder.absolute() / TEMPORARY.format(secrets.token_hex(8))  # pyarrow takes a:b/c for an address
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK, mode)
        with contextlib.suppress(OSError):  # a file system without locks
            if not WINDOWS:
                lock_descriptor(descriptor)
        if _is_at(descriptor, part):
            return descriptor, part
        os.close(descriptor)  # swept away by another process, before it was locked


@functools.cache
def _sweep(folder: Path) -> None:
    """Once per process and folder: remove what killed processes left behind.

    Only what is old and not locked: on some cluster file systems, locks are not visible from other machines.
    """
    for part in folder.glob(TEMPORARY.format("*")):
        with contextlib.suppress(OSError, AnisocertError):
            if time.time() - part.lstat().st_mtime > ABANDONED:
                with contextlib.nullcontext() if WINDOWS else locked(part, wait=False):
                    part.unlink()


def _lock(path: Path, wait: bool, busy: str, private: bool) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    _replaceable(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600 if private else 0o666)
    try:
        if private and not WINDOWS:
            expect_owner(path, os.fstat(descriptor))
            os.fchmod(descriptor, 0o600)
        if not lock_descriptor(descriptor, blocking=wait):
            raise BusyError(busy)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
