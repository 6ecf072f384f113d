"""A secret of this user, which shows that a file in a run's folder was written here and did not come with the run."""

import hmac
import os
import secrets
import sys
from pathlib import Path

from anisocert.durable import locked, write_whole
from anisocert.errors import ArgumentError
from anisocert.inputs import read_owned

BYTES = 32  # of the secret, and of a seal


def place() -> Path:
    """The file of the secret, in the platform's folder for what programs keep."""
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        state_home = os.environ.get("XDG_STATE_HOME", "")  # a relative one counts for nothing, by its specification
        folder = Path(state_home) if os.path.isabs(state_home) else Path.home() / ".local" / "state"
    return folder / "anisocert" / "seals.key"


def secret() -> bytes:
    """This user's secret, made when it is first needed; an ArgumentError where nobody but the user can keep one."""
    try:
        path = place()
        if not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path.with_suffix(".lock"), private=True):  # of several that begin at once, one makes it
                if not os.path.lexists(path):
                    write_whole(path, lambda part: part.write_bytes(secrets.token_bytes(BYTES)), private=True)
        key, access = read_owned(path, BYTES, below=path.parent)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        raise ArgumentError(f"expected a place for a secret of this user, got none ({error})") from error
    if access or len(key) != BYTES:
        raise ArgumentError(
            f"expected {BYTES} bytes that only this user may read in {path}, got another file: remove it, and a new "
            "one is made"
        )
    return key


def seal(key: bytes, content: bytes) -> bytes:
    """What nobody can make of the content without the key."""
    return hmac.digest(key, content, "sha256")


def sealed(key: bytes, content: bytes) -> bytes:
    """The content behind its seal."""
    return seal(key, content) + content


def opened(key: bytes, found: bytes) -> bytes | None:
    """The content behind a seal; None where it was made without the key, or the content changed."""
    content = found[BYTES:]
    return content if hmac.compare_digest(found[:BYTES], seal(key, content)) else None
