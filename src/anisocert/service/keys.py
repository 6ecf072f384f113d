"""API keys: who may ask what, how often and how much.

A key is 32 random bytes, so its SHA-256 is as hard to invert as the key is to guess: a slow hash, which passwords need,
would add nothing and would cost the server a tenth of a second per request. The file holds digests alone. Whoever can
write it can give themselves rights, so one that others own or may write is refused.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from anisocert.durable import locked, write_whole
from anisocert.errors import ArgumentError
from anisocert.inputs import read_owned
from anisocert.shell import shell_quote

LOOKUP, ADMIT, PLAN, REGIONS, OPERATE = "lookup", "admit", "plan", "regions", "operate"
RIGHTS: Final = {
    LOOKUP: "ask what is promised about an input",
    ADMIT: "have inputs certified, which binds all later answers",
    PLAN: "have them certified with fewer votes or a smaller alpha, which uses up their attempts all the same",
    REGIONS: "see radius, region and evidence also where the promise was made to another input",
    OPERATE: "read metrics and the state of the memory",
}
PREFIX = "anisocert_"
MOST_FILE = 1 << 20
MOST = 1 << 53  # which a float holds exactly, as clocks need it
RECENT = 2_000_000_000  # nanoseconds: more than one tick of any file system's clock
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True)
class Key:
    """sha256: of the key, in hexadecimal. per_minute: inputs it may send. most_bytes: of one request."""

    name: str
    sha256: str = field(repr=False)
    rights: tuple[str, ...] = (LOOKUP, ADMIT)
    per_minute: int = 600
    most_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ArgumentError(f"expected the name of a key in letters, digits and . _ @ -, got {self.name!r}")
        if not isinstance(self.sha256, str) or not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ArgumentError(f"expected the SHA-256 of key {self.name} in hexadecimal, got something else")
        rights = self.rights if isinstance(self.rights, list | tuple) else (self.rights,)
        if not rights or not set(map(str, rights)) <= set(RIGHTS):
            raise ArgumentError(f"expected rights of key {self.name} among {', '.join(RIGHTS)}, got {rights!r}")
        object.__setattr__(self, "rights", tuple(right for right in RIGHTS if right in rights))
        for name in ("per_minute", "most_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise ArgumentError(
                    f"expected {name} of key {self.name}, a whole number from 1 to {MOST}, got {str(value)[:40]}"
                )

    def may(self, right: str) -> bool:
        """Whether the key has a right."""
        return right in self.rights


def digest_of(token: str) -> str:
    """By which a key is known."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class KeyFile:
    """The keys in a file, which is read again whenever it has changed: a key that was removed ends at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, ...] | None = None
        self._keys: tuple[Key, ...] = ()
        self.keys()

    def keys(self) -> tuple[Key, ...]:
        """All keys now."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise ArgumentError(
                f"expected a file of keys at {self.path}, got none: "
                f"anisocert keys add {shell_quote(self.path)} --name NAME"
            ) from error
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        seen = (changed, status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode)
        if seen != self._seen:
            self._keys = _read(self.path)
            # A file may change twice within one tick of the clock that it is stamped with, so a stamp is trusted only
            # once it is old. A clock that was set back makes it younger, and costs time alone.
            self._seen = seen if time.time_ns() - changed > RECENT else None
        return self._keys

    def holder(self, token: str) -> Key | None:
        """The key that a client sent. Every key is compared, each in constant time."""
        digest, found = digest_of(token), None
        for key in self.keys():
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found


def add_key(path: Path, name: str, **options: Any) -> str:
    """Add a key to a file, which is created if it does not exist; returns the key, which is stored nowhere."""
    token = PREFIX + secrets.token_urlsafe(32)
    added = Key(name, digest_of(token), **options)

    def change(keys: tuple[Key, ...]) -> tuple[Key, ...]:
        if any(key.name == name for key in keys):
            raise ArgumentError(f"expected the name of a new key, got {name}, which is in {path}: remove it first")
        return (*keys, added)

    _rewrite(path, change)
    return token


def remove_key(path: Path, name: str) -> None:
    """Remove a key from a file; a running service refuses it from then on."""

    def change(keys: tuple[Key, ...]) -> tuple[Key, ...]:
        remaining = tuple(key for key in keys if key.name != name)
        if len(remaining) == len(keys):
            names = ", ".join(key.name for key in keys) or "none"
            raise ArgumentError(f"expected the name of a key in {path}, got {name!r}; there are: {names}")
        return remaining

    _rewrite(path, change)


def _rewrite(path: Path, change: Callable[[tuple[Key, ...]], Iterable[Key]]) -> None:
    with locked(path.with_name(f"{path.name}.lock"), private=True):
        keys = change(_read(path) if path.exists() else ())
        text = json.dumps({"keys": [asdict(key) for key in keys]}, indent=2) + "\n"
        write_whole(path, lambda part: part.write_text(text), private=True)


def _read(path: Path) -> tuple[Key, ...]:
    content, access = read_owned(path, MOST_FILE)
    if access & (stat.S_IWGRP | stat.S_IWOTH):
        raise ArgumentError(
            f"expected {path} to be writable by its owner alone, got more: chmod 600 {shell_quote(path)}"
        )
    try:
        keys = tuple(Key(**entry) for entry in json.loads(content)["keys"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"expected keys as `anisocert keys add` writes them in {path}, got something else"
        ) from error
    for name in ("name", "sha256"):
        if len({getattr(key, name) for key in keys}) < len(keys):
            raise ArgumentError(f"expected each key in {path} once, got one twice")
    return keys
