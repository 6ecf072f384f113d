"""The key of all noise: from a file that only its owner may read, from the environment, or drawn for this process."""

import os
from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.inputs import read_owned
from anisocert.shell import shell_quote
from anisocert.system import SHORTEST_SECRET

VARIABLE = "ANISOCERT_SECRET"
LONGEST = 4096


def secret_of(path: Path | None) -> bytes:
    """The secret. Every question's noise is drawn with fresh randomness besides, so it need not outlive the process."""
    value = os.environ.pop(VARIABLE, None)  # no child process is to inherit it; /proc keeps it
    if path is None:
        secret = os.urandom(32) if value is None else value.strip().encode()
        where = f"the variable {VARIABLE}"
    else:
        content, access = read_owned(path, LONGEST)
        if access:
            raise ArgumentError(
                f"expected {path} to be readable by its owner alone, got more: chmod 600 {shell_quote(path)}"
            )
        secret, where = content.strip(), str(path)
    if len(secret) < SHORTEST_SECRET:
        raise ArgumentError(
            f"expected a secret of at least {SHORTEST_SECRET} bytes in {where}, got fewer: openssl rand -hex 32"
        )
    return secret
