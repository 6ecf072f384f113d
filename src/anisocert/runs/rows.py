"""A run's rows: certificates as lines of a table, and back."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.data.dataset import UNLABELLED
from anisocert.errors import ArgumentError, from_extra
from anisocert.geometry import Region
from anisocert.memory import COLUMNS, NOTES
from anisocert.rounding import TOLERANCE, agrees
from anisocert.smoothing import SELECTOR, named, unnamed

with from_extra("cli", "reading a run needs pyarrow"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

Row = Mapping[str, Any]

# What a row has besides its certificate's fields, or under a different name or type.
_OWN: dict[str, Any] = {
    "idx": int, "label": int, "correct": bool, "radius": float, "proxy_radius": float, "norm": str, "sigma": float,
    "theta_min": float, "theta_max": float, "theta_geomean": float,
}  # fmt: skip
_TYPES: dict[Any, Any] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
_TYPES |= {kind | None: arrow for kind, arrow in _TYPES.items()}
_COLUMNS = (
    "idx", "label", "prediction", "correct", "radius", "proxy_radius", "gap", "p_a", "p_b", "top_votes",
    "runner_up_votes", "votes", "bound_k", "bound_n", "alpha", "num_classes", "bound", "stop", "method", "norm",
    "noise", "sigma", "theta_min", "theta_max", "theta_geomean", "reason", "seconds", "seed", *SELECTOR,
)  # fmt: skip
_HINTS = get_type_hints(Certificate) | _OWN
# From types, because a column without values (`stop`) would have no type, and parts must merge.
_KINDS = {name: _TYPES[kind] for name, kind in _HINTS.items() if name in _COLUMNS}
SCHEMA = pa.schema([(name, pa.uint64() if name == "seed" else _KINDS[name]) for name in _COLUMNS])
ANSWERS = pa.schema([(name, _TYPES[_HINTS[name.removeprefix("memory_")]]) for name in COLUMNS])
"""What a memory adds."""
_READ = pa.schema([*SCHEMA, *ANSWERS])
_SAME = [field.name for field in fields(Certificate) if field.name in _COLUMNS and field.name not in _OWN]
_LEAST = {"label": UNLABELLED, "prediction": ABSTAIN, "votes": 0, "bound_n": 0, "num_classes": 2}
_LEAST |= {"memory_prediction": ABSTAIN}
OPTIONAL = tuple(name for name in _COLUMNS if type(None) in get_args(_HINTS.get(name)))
"""Columns that rows may leave empty."""
_TELLING = {"norm": str, "p_a": float, "p_b": float, "gap": float}
MOST_GROWTH, FREE_BYTES = 50, 1_000_000
"""A table may be this many times as large as its file, plus this many bytes: no run's rows are more repetitive."""


def row(certificate: Certificate, label: int, sigma: float) -> dict[str, Any]:
    """One line of `certificates.parquet`: the promise, its evidence and what it cost, before any memory."""
    theta = certificate.theta.astype(np.float64)
    own = {
        "idx": certificate.id,
        "label": label,
        "correct": certificate.prediction == label and certificate.prediction != ABSTAIN,
        "norm": f"l{certificate.norm}",
        "sigma": sigma,
        "theta_min": float(theta.min()),
        "theta_max": float(theta.max()),
        "theta_geomean": float(np.exp(np.log(theta).mean())),
    }
    return {name: own[name] if name in own else getattr(certificate, name) for name in _COLUMNS}


def region_of(row: Row, theta: NDArray[np.float32], x: NDArray[Any]) -> Region:
    """What theta and the gap of a row that promises something give around x."""
    return named(row["noise"]).region(x, theta, row["gap"], row["cap"])


def expect_shape(row: Row, theta: NDArray[np.float32], x: NDArray[Any]) -> None:
    """An error unless a row's theta is one number, or has one for each value of the input."""
    if theta.size > 1 and theta.shape != x.shape:
        raise ArgumentError(f"expected an input of shape {theta.shape} for example {row['idx']}, got {x.shape}")


def certificate_of(row: Row, theta: NDArray[np.float32], x: NDArray[Any], model_hash: str) -> Certificate:
    """The certificate of a row, with the region recomputed from theta and gap around its input."""
    number = int(row["idx"])
    if missing := [name for name in SCHEMA.names if name not in row]:
        raise ArgumentError(f"expected all columns of a certificate of example {number}, got none of {missing}")
    expect_shape(row, theta, x)
    region = None
    if row["prediction"] != ABSTAIN:
        region = region_of(row, theta, x)
        if not agrees(region.radius, row["radius"], more=TOLERANCE):
            raise ArgumentError(
                f"expected theta and gap of example {number} to give its radius {row['radius']}, got {region.radius}"
            )
    return Certificate(
        id=number, region=region, theta=theta, norm=int(row["norm"].removeprefix("l")), model_hash=model_hash, x=x,
        **{name: row[name] for name in _SAME},
    )  # fmt: skip


def table_of(content: bytes) -> Any:
    """The rows in the bytes of a table, in order of id: columns that runs have, of the kinds of values that they have.

    A file that claims more rows or longer texts than its size can account for is refused before they take memory, and
    so is a compression that runs do not use, as others can make gigabytes of a few bytes.
    """
    try:
        return _table(content)
    except ArgumentError:
        raise
    except (pa.ArrowException, OSError, MemoryError, ValueError, KeyError) as error:
        raise ArgumentError(f"cannot be read: {' '.join(f'{type(error).__name__}: {error}'.split())}") from error


def _table(content: bytes) -> Any:
    schema = pq.ParquetFile(pa.BufferReader(content)).schema_arrow
    wanted = [field for field in schema if field.name in _READ.names]
    names, texts = [field.name for field in wanted], [field.name for field in wanted if pa.types.is_string(field.type)]
    if len(set(names)) < len(names) or "idx" not in names or not pa.types.is_integer(schema.field("idx").type):
        raise ArgumentError(f"cannot be read: expected one idx, whole numbers, among its columns, got {names}")
    for field in wanted:
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_null)
        if not any(kind(field.type) for kind in kinds):
            raise ArgumentError(f"cannot be read: expected numbers or texts in {field.name}, got {field.type}")
    # Repeated texts stay one text and indices until their total size is known.
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    packing = {group.column(j).compression for group in groups for j in range(group.num_columns)}
    if packing - {"SNAPPY", "UNCOMPRESSED"}:
        raise ArgumentError(f"cannot be read: expected the compression that runs use, snappy, got {packing}")
    size, most = 8 * len(names) * sum(group.num_rows for group in groups), MOST_GROWTH * len(content) + FREE_BYTES
    if size <= most:
        table = file.read(columns=names, use_threads=False)
        size = table.nbytes + sum(_length(chunk) for name in texts for chunk in table[name].chunks)
    if size > most:
        raise ArgumentError(f"cannot be read: {len(content):,} bytes claim to hold {size:,} bytes of rows")
    if table["idx"].null_count:
        raise ArgumentError("cannot be read: expected an idx in every row, got none in some")
    plain = table.cast(pa.schema(wanted))
    return completed(pa.table({name: _in_kind(plain[name], name) for name in names}).sort_by("idx"))


def _in_kind(column: Any, name: str) -> Any:
    """Values in the type that runs have for them; unchanged where they do not fit, for a later check to find."""
    try:
        return column.cast(_READ.field(name).type)
    except pa.ArrowException:
        return column


def expect_sound(table: Any) -> None:
    """An error if there are values that no run has, so that code that shows them need not doubt each one."""
    answered = [name for name in COLUMNS if name in table.column_names]
    if 0 < len(answered) < len(COLUMNS):
        raise ArgumentError(f"cannot be read: expected {', '.join(COLUMNS)} or none of them, got {', '.join(answered)}")
    for name in set(table.column_names) & set(_READ.names):
        column, kind = table[name], _READ.field(name).type
        try:
            column = column.cast(kind)
        except pa.ArrowInvalid as error:
            raise ArgumentError(f"cannot be read: expected {kind} in {name}, got {column.type}") from error
        least = _LEAST.get(name, 0.0 if pa.types.is_floating(kind) else None)
        if least is not None and (lowest := pc.min(column).as_py()) is not None and not least <= lowest:
            raise ArgumentError(f"cannot be read: expected {name} to be at least {least}, got {lowest}")
        if pa.types.is_floating(kind) and not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise ArgumentError(f"cannot be read: expected finite numbers in {name}, got others")
        if name in COLUMNS and column.null_count:
            raise ArgumentError(f"cannot be read: expected {name} in every row, got none in some")
        # What was imported lacks much; where votes were counted, nothing is missing.
        counted = pc.is_valid(table["votes"]) if "votes" in table.column_names else None
        if counted is None or name in OPTIONAL:
            continue
        if pc.any(pc.and_(counted, pc.is_null(column)), min_count=0).as_py():
            raise ArgumentError(f"cannot be read: expected {name} beside votes in every row, got none in some")
    if answered and (unknown := set(table["memory_note"].unique().to_pylist()) - set(NOTES)):
        which = ascii(min(unknown))[:40]
        raise ArgumentError(f"cannot be read: expected memory_note to be one of {', '.join(NOTES)}, got {which}")


def completed(table: Any) -> Any:
    """A table with what old ones lack: its noise's names, None where a row leaves it open; no selector."""
    for name in SELECTOR if SELECTOR[0] not in table.column_names else ():
        table = table.append_column(name, pa.nulls(len(table), SCHEMA.field(name).type))
    if "noise" in table.column_names or not _TELLING.keys() <= set(table.column_names):
        return table
    rows = table.select(list(_TELLING)).to_pylist()
    noises = [unnamed(**row) if all(type(row[column]) is _TELLING[column] for column in row) else None for row in rows]
    return table.append_column("noise", pa.array(noises, pa.string()))


def _length(texts: Any) -> int:
    """Bytes of texts once each is written out."""
    lengths = pc.binary_length(texts.dictionary).take(texts.indices)
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
