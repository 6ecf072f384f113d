"""The key of all noise: from a file that only its owner may read, from the environment, or drawn for this process."""

import os
import stat
from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.inputs import opened_regular
from anisocert.shell import shell_quote
from anisocert.system import SHORTEST_SECRET

VARIABLE = "ANISOCERT_SECRET"
LONGEST = 4096


def secret_of(path: Path | None) -> bytes:
    """The secret. Every question's noise is drawn with fresh randomness besides, so it need not outlive the process."""
    named = os.environ.pop(VARIABLE, None)  # no child process is to inherit it; /proc keeps it
    if path is None:
        found = os.urandom(32) if named is None else named.strip().encode()
        where = f"the variable {VARIABLE}"
    else:
        with opened_regular(path, most=LONGEST) as file:
            mode, found = os.fstat(file.fileno()).st_mode, file.read().strip()
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise ArgumentError(
                f"expected {path} to be readable by its owner alone, got more: chmod 600 {shell_quote(path)}"
            )
        where = str(path)
    if len(found) < SHORTEST_SECRET:
        raise ArgumentError(
            f"expected a secret of at least {SHORTEST_SECRET} bytes in {where}, got fewer: openssl rand -hex 32"
        )
    return found
