"""A certificate as a row of a table, and back, without changing a bit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

import numpy as np

from anisocert.certificate import Certificate
from anisocert.geometry import Region
from anisocert.memory import _kinds as kinds
from anisocert.memory.errors import BrokenMemoryError
from anisocert.rounding import TOLERANCE, agrees
from anisocert.smoothing import unnamed

# The whole certificate except its arrays is kept as JSON, which holds float64 exactly; a few fields also have a column,
# for whoever reads the file with other tools.
SCALARS: Final = tuple(f.name for f in fields(Certificate) if f.name not in ("region", "theta", "x"))
COLUMNS: Final = tuple(kinds.KINDS["entries"])[1:-1]


def to_row(certificate: Certificate, region: Region, time: float) -> tuple[Any, ...]:
    """Values in the order of COLUMNS. time: seconds since 1970."""
    values = {name: plain(getattr(certificate, name)) for name in SCALARS}
    row = values | {
        "radius": region.radius,
        "proxy_radius": region.proxy_radius,
        "time": time,
        "certificate": json.dumps(values),
        "theta": np.asarray(certificate.theta, "<f4").tobytes(),
        "center": region.center.astype("<f4").tobytes(),  # exact: _belonging.py refuses other inputs
        # One number for a ball.
        "axes": np.asarray(region.radius if region.radius == region.enclosing_radius else region.axes, "<f8").tobytes(),
    }
    return tuple(row[name] for name in COLUMNS)


def certificate(scalars: str, theta: bytes, center: bytes, axes: bytes, shape: tuple[int, ...]) -> Certificate:
    """The certificate of a row."""
    with _undamaged():
        values = {name: value for name, value in json.loads(scalars).items() if name in SCALARS}
        kinds.expect("certificate", values, values.values())
        if "noise" not in values:
            values["noise"] = unnamed(f"l{values['norm']}", values["p_a"], values["p_b"], values["gap"])
        noise = np.frombuffer(theta, "<f4").reshape(shape if len(theta) != 4 else ())
        return Certificate(**values, region=region(center, axes, shape, values["norm"]), theta=noise)


def region(center: bytes, axes: bytes, shape: tuple[int, ...], norm: int) -> Region:
    """The region of a row."""
    with _undamaged():
        half = np.frombuffer(axes, "<f8").reshape(shape if len(axes) != 8 else ())
        return Region(np.frombuffer(center, "<f4").reshape(shape), half, norm)


def promise(row: dict[str, Any], shape: tuple[int, ...]) -> Certificate:
    """The certificate of a whole row, by column; an error if a column disagrees."""
    stored = certificate(row["certificate"], row["theta"], row["center"], row["axes"], shape)
    assert stored.region is not None
    fresh = dict(zip(COLUMNS, to_row(stored, stored.region, row["time"]), strict=True))
    # Logarithms differ between machines in the last digits.
    same = agrees(row["proxy_radius"], fresh["proxy_radius"], more=TOLERANCE)
    for name in COLUMNS:
        if name != "certificate" and not (same if name == "proxy_radius" else row[name] == fresh[name]):
            shown = "" if isinstance(row[name], bytes) else f" {row[name]!r}, expected {fresh[name]!r}"
            raise BrokenMemoryError(f"its column {name} is not what its certificate gives:{shown}")
    return stored


def plain(value: Any) -> Any:
    """A scalar of numpy's as Python's; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


@contextmanager
def _undamaged() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BrokenMemoryError(f"this memory is broken: one of its entries is damaged ({error})") from error
