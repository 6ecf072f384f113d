"""A table before it is drawn: the kind of each number decides how it is rounded, wherever it is shown."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from itertools import groupby
from typing import Literal

Kind = Literal["text", "count", "share", "shortfall", "length", "seconds", "ratio"]
"""shortfall: a share of inputs that lack something, which is rounded up."""
MISSING = "–"
WHOM = "whom it protects"


@dataclass(frozen=True)
class Column:
    """name: of the column; group: a heading over neighbours that share it; kind: of its numbers."""

    name: str
    kind: Kind = "text"
    group: str = ""


@dataclass(frozen=True)
class Cell:
    """A value and, where there is one, its confidence interval. kind: where it is not the column's."""

    value: str | float | None
    low: float | None = None
    high: float | None = None
    kind: Kind | None = None


@dataclass(frozen=True)
class Table:
    """One table, to be drawn in any format. marks: the kind of each row, for code that selects rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    marks: tuple[str, ...] = ()

    @property
    def spans(self) -> list[tuple[str, int]]:
        """Groups of neighbouring columns, and how many columns each has; columns without a group are one named ""."""
        return [(group, len(list(columns))) for group, columns in groupby(self.columns, key=lambda c: c.group)]

    @property
    def is_grouped(self) -> bool:
        """Whether any columns have a heading over them."""
        return any(column.group for column in self.columns)

    def pairs(self, row: tuple[Cell, ...]) -> list[tuple[Column, Cell]]:
        """The cells of a row, each with its column."""
        return list(zip(self.columns, row, strict=True))


def down(value: float, digits: int = 3) -> str:
    """A length in decimals, never rounded up."""
    return _quantized(Decimal(value), digits, ROUND_FLOOR)


def above(value: float, digits: int = 3) -> str:
    """An upper bound in decimals, never rounded down."""
    return _quantized(Decimal(value), digits, ROUND_CEILING)


def _quantized(exact: Decimal, digits: int, rounding: str) -> str:
    with localcontext(prec=400):  # the largest float has 309 digits
        return str(exact.quantize(Decimal(1).scaleb(-digits), rounding))


def times(ratio: float, digits: int = 3) -> str:
    """How many times as large, never rounded up, but for what dividing left in the last digits."""
    if not math.isfinite(ratio):
        return str(ratio)
    return _quantized(Decimal(f"{ratio:.12g}"), digits, ROUND_FLOOR)


def short_down(value: float, digits: int = 3) -> str:
    """A length in this many significant digits, without trailing zeros, never rounded up."""
    exact = Decimal(repr(float(value)))  # as it was written: 0.1 stays 0.1
    if exact == 0:
        return "0"
    return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_FLOOR).normalize():f}"


def percent(share: float, upper: bool = False, digits: int = 1) -> str:
    """A share of inputs in per cent, rounded down (abstentions and an interval's upper end: up)."""
    # by its shortest decimal: 29 of 100 is 29.0, although the double nearest to .29 lies below
    exact = Decimal(repr(float(share))) * 100
    return str(exact.quantize(Decimal(1).scaleb(-digits), ROUND_CEILING if upper else ROUND_FLOOR))


def probability(alpha: float, digits: int = 3) -> str:
    """A probability of being wrong, in so many digits (six at most), never rounded down."""
    exact = Decimal(repr(float(alpha)))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_CEILING)):g}"


def shown(value: str | float | None, kind: Kind, upper: bool = False) -> str:
    """A value as text. upper: it rounds up, as the upper end of an interval does."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, str):
        return value
    if kind in ("share", "shortfall"):
        return percent(value, upper)
    if kind == "length":
        return (above if upper else down)(value)
    if kind == "count":
        return f"{round(value):,}"
    if kind == "ratio":
        return times(value, 2)
    return f"{value:.3g}" if kind == "seconds" else f"{value:g}"


def text(cell: Cell, column: Column) -> str:
    """A cell's value as text."""
    kind = cell.kind or column.kind
    return shown(cell.value, kind, upper=kind == "shortfall")


def interval(cell: Cell, column: Column) -> str:
    """The confidence interval as text; empty where there is none."""
    if cell.low is None or cell.high is None:
        return ""
    kind = cell.kind or column.kind
    return f"{shown(cell.low, kind)}–{shown(cell.high, kind, upper=True)}"
