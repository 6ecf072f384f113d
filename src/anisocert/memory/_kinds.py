"""The columns of a memory's tables, for every store: their types, and by which of them rows are looked up.

SQLite keeps any type in any column, whoever put it there, so that each value is checked when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Set
from typing import Any, Final, get_type_hints

from anisocert.certificate import Certificate
from anisocert.memory.errors import BrokenMemoryError

_TIMES: Final = ("created", "time")
_LATEST: Final = 253_402_300_800.0  # the year 10000, beyond what calendars show
_LARGEST: Final = 2**64
_HEAD: Final = {
    "policy": str, "generation": str, "created": float, "model_hash": str | None, "norm": int | None,
    "shape": str | None, "lifetime": float | None, "probe": bytes | None, "probe_shape": str | None,
    "probe_hash": str | None, "alphas": float, "entries": int, "entries_link": bytes, "submissions": int,
    "submissions_link": bytes, "numbers": int, "numbers_link": bytes, "seal": bytes,
}  # fmt: skip
_ENTRIES: Final = {
    "number": int, "id": int, "prediction": int, "votes": int, "alpha": float, "method": str, "model_hash": str,
    "note": str, "radius": float, "proxy_radius": float, "time": float, "certificate": str, "theta": bytes,
    "center": bytes, "axes": bytes, "link": bytes,
}  # fmt: skip
_SUBMISSIONS: Final = {
    "number": int, "evidence": bytes, "input": bytes, "alpha": float, "reserved": int | None, "link": bytes,
}  # fmt: skip
_NUMBERS: Final = {"number": int, "name": bytes, "input": bytes, "noise": bytes, "alpha": float, "link": bytes}
# Columns in the order of the tables; the last are the values that an entry has as JSON.
KINDS: Final[dict[str, dict[str, Any]]] = {
    "head": _HEAD,
    "entries": _ENTRIES,
    "submissions": _SUBMISSIONS,
    "numbers": _NUMBERS,
    "certificate": get_type_hints(Certificate),
}
# Besides `number`, the primary key. Submissions and numbers hold inputs, votes and noise as digests: about an input
# that abstained, a memory knows only whether it came before.
UNIQUE: Final[dict[str, tuple[str, ...]]] = {"entries": ("id",), "submissions": ("evidence", "reserved")}
# No index of text anywhere: in PostgreSQL it is of no use once the operating system sorts letters differently.
INDEXED: Final[dict[str, dict[str, str]]] = {
    "submissions": {"submitted": "input"},
    "numbers": {"named": "name", "drawn": "noise", "reserved": "input"},
}
_STORED: Final = (int, float, str, bytes)


def keys(table: str) -> tuple[str, ...]:
    """The columns by which rows are looked up."""
    return ("number", *UNIQUE.get(table, ()), *INDEXED.get(table, {}).values())


def columns(table: str) -> dict[str, tuple[type, bool]]:
    """Type of each column, and whether it must have a value."""
    plain = {name: next(base for base in _STORED if kind in (base, base | None)) for name, kind in KINDS[table].items()}
    return {name: (kind, KINDS[table][name] is kind) for name, kind in plain.items()}


def expect_tables(where: str, found: Set[tuple[str, ...]], expected: Set[tuple[str, ...]]) -> None:
    """An error unless a store holds the tables of a memory, and nothing else. found: kind, name, and more of each."""
    if found != expected:
        differing = sorted({f"{kind} {name}" for kind, name, *_ in found ^ expected})
        raise BrokenMemoryError(
            f"this memory is broken: expected its own tables in {where} and nothing else, got others: "
            f"{', '.join(differing)}. If nobody has changed it, another version of anisocert made it. Pass its runs "
            "through a new one: anisocert memory add RUN --memory NEW"
        )


def expect(table: str, names: Iterable[str], values: Iterable[Any]) -> None:
    """An error unless each value has its column's type, and numbers can be computed with."""
    for name, value in zip(names, values, strict=True):
        if (fault := misfit(table, name, value)) is not None:
            raise BrokenMemoryError(f"this memory is broken: {fault}")


def misfit(table: str, name: str, value: Any) -> str | None:
    """Why a value cannot be in a column; None if it can."""
    kind = KINDS[table][name]
    if _fits(value, kind) and (name not in _TIMES or 0 <= value < _LATEST):
        return None
    plain = isinstance(value, int | float | None)
    shown = repr(value)[:40] if plain else f"a value of type {type(value).__name__}"
    wanted = "a time" if name in _TIMES else getattr(kind, "__name__", str(kind)).replace("float", "a finite float")
    return f"expected {wanted} as {name} of its {table}, got {shown}"


def shape(name: str, text: str | None) -> tuple[int, ...] | None:
    """A shape, from JSON."""
    if text is None:
        return None
    try:
        sizes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenMemoryError(f"this memory is broken: its {name} cannot be read ({error})") from error
    if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size < 2**31 for size in sizes):
        raise BrokenMemoryError(f"this memory is broken: expected whole numbers as its {name}, got {text[:40]!r}")
    return tuple(sizes)


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int):
        return (isinstance(value, kind) or isinstance(0.0, kind)) and abs(value) < _LARGEST
    return isinstance(value, kind) and (not isinstance(value, float) or math.isfinite(value))
