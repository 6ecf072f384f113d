"""Which store a place names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anisocert.errors import ArgumentError
from anisocert.memory.sqlite import SqliteStore
from anisocert.memory.store import Store

# By the scheme of a URL; anything else is a path.
STORES: Final[dict[str, type[Store]]] = {"": SqliteStore}


def store_of(place: str | Path | None) -> type[Store]:
    """The class of the store for a path or URL, or for None, a memory that ends with the process."""
    scheme, mark, _ = str(place or "").partition("://")
    if (found := STORES.get(scheme if mark else "")) is None:
        urls = "".join(f", or a URL that begins with {name}://" for name in STORES if name)
        # The rest of a URL may hold a password.
        raise ArgumentError(
            f"expected the path of a file for the memory{urls}, got a URL that begins with {scheme}://, "
            "which is not supported"
        )
    return found
