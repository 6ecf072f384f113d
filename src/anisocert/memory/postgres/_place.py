"""Where a memory in PostgreSQL is: a URL as PostgreSQL's own tools take it, with `memory=NAME`, its schema."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from anisocert.errors import ArgumentError, from_extra
from anisocert.memory.store import shown

with from_extra("postgres", "a memory in PostgreSQL needs psycopg"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

_FORM: Final = "postgresql://USER@HOST/DATABASE?memory=NAME"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# A server that does not answer is noticed within half a minute; and in a cluster, promises are made by one server only.
_USUAL: Final = {
    "application_name": "anisocert",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "target_session_attrs": "primary",
}


@dataclass(frozen=True)
class Place:
    """schema: which holds the memory. settings: of the connection, with a password, which is never shown."""

    shown: str
    schema: str
    settings: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Place:
        """The place that a URL names; an error, which does not show its password, if it is no such URL."""
        redacted = shown(url)
        address, _, query = url.partition("?")
        if "?" in query:
            raise ArgumentError(f"expected {_FORM}, with %3F for a question mark in a password, got {redacted}")
        options = [option for option in query.split("&") if option]
        names = [unquote(option.partition("=")[2]) for option in options if _key(option) == "memory"]
        name = names[0] if names else "anisocert"
        if len(names) > 1 or not _NAME.fullmatch(name) or name.startswith("pg_"):
            raise ArgumentError(
                f"memory: expected one name of small letters, digits and _ that does not begin with pg_, in {_FORM}, "
                f"got {', '.join(map(repr, names))}"
            )
        rest = "&".join(option for option in options if _key(option) != "memory")
        try:
            settings = conninfo_to_dict(f"{address}?{rest}")
        except (psycopg.Error, ValueError):
            # What the library says repeats the URL, its password included.
            raise ArgumentError(f"expected {_FORM}, got {redacted}, which PostgreSQL's library cannot read") from None
        return cls(redacted, name, {**_USUAL, **settings, "client_encoding": "utf8"})


def _key(option: str) -> str:
    return unquote(option.partition("=")[0])
