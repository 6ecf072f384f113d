"""Which store a place names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from anisocert.errors import ArgumentError
from anisocert.memory.postgres import PostgresStore
from anisocert.memory.sqlite import SqliteStore
from anisocert.memory.store import Store

URL_AS_PATH: Final = re.compile("[a-z][a-z0-9+.-]+:/[^/]")
# By the scheme of a URL; anything else is a path.
STORES: Final[dict[str, type[Store]]] = {"": SqliteStore, "postgresql": PostgresStore}


def store_of(place: str | Path | None) -> type[Store]:
    """The class of the store for a path or URL, or for None, a memory that ends with the process."""
    if not isinstance(place, str | Path | None) or place == "":  # a file named "5" or "b'm'" is nobody's wish
        raise ArgumentError(f"expected a path or URL for the memory, got {place!r}")
    if isinstance(place, Path) and URL_AS_PATH.match(str(place)):
        raise ArgumentError("expected the URL of a memory as a text, got a Path, which cannot hold one")
    scheme, mark, _ = str(place or "").partition("://")
    if (store := STORES.get(scheme if mark else "")) is None:
        urls = "".join(f", or a URL that begins with {name}://" for name in STORES if name)
        # The rest of a URL may hold a password.
        raise ArgumentError(
            f"expected the path of a file for the memory{urls}, got a URL that begins with {scheme}://, "
            "which is not supported"
        )
    return store
