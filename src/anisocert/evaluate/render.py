"""A table for a terminal, a README, a paper, a spreadsheet."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from anisocert.errors import ArgumentError
from anisocert.evaluate.table import WHOM, Cell, Column, Kind, Table, above, down, interval, percent, text

if TYPE_CHECKING:
    from rich.table import Table as RichTable

FORMATS = ("terminal", "markdown", "latex", "csv")
PHRASE = 15  # characters per line of a phrase
WIDE = 3  # columns of a group whose heading goes into the title of a terminal's table, where it has room


def render(table: Table, style: str, width: int | None = None) -> str:
    """The table as text in one of the formats; for a terminal without colours, and as wide as it needs to be.

    width: of the terminal, if it is to fit one.
    """
    if style == "markdown":
        return markdown(table)
    if style == "latex":
        return latex(table)
    if style == "csv":
        return comma_separated(table)
    if style == "terminal":
        from rich.console import Console

        console = Console(file=io.StringIO(), width=width or 400)
        console.print(terminal(table, width))
        return str(console.file.getvalue())  # type: ignore[attr-defined]
    raise ArgumentError(f"expected a format of {', '.join(FORMATS)}, got {style!r}")


def terminal(table: Table, width: int | None = None) -> "RichTable":
    """For a terminal: without the confidence intervals and, if it is narrow, without every other of many columns."""
    wide = sorted(name for name, count in table.spans if name and count > WIDE)
    title = "; ".join([table.title, *wide])
    rich_table = _terminal(table, title, wide, gap=1)
    if width is not None and _width(rich_table) > width:
        indices = [i for i, column in enumerate(table.columns) if column.group in wide and column.kind == "share"]
        rich_table = _terminal(_without(table, set(indices[1::2])), title, wide, gap=0)
    return rich_table


def _terminal(table: Table, title: str, wide: Sequence[str], gap: int) -> "RichTable":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(
        title=Text(title), caption=Text(table.caption), box=SIMPLE_HEAD, title_justify="left",
        caption_justify="left", pad_edge=False, padding=(0, gap, 0, 0),
    )  # fmt: skip
    for column in table.columns:
        name = column.name.replace(" ", "\n")
        name = f"{column.group}\n{name}" if column.group and column.group not in wide else name
        side: Literal["left", "right"] = "left" if column.kind == "text" else "right"
        is_phrase = column.name == WHOM  # a phrase, which may take several lines
        rich_table.add_column(
            Text(name), justify=side, vertical="bottom", no_wrap=not is_phrase, max_width=PHRASE if is_phrase else None
        )
    for row in table.rows:
        rich_table.add_row(*(Text(text(cell, column)) for column, cell in table.pairs(row)))
    return rich_table


def _width(table: "RichTable") -> int:
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=1000)
    return Measurement.get(console, console.options, table).maximum


def _without(table: Table, dropped: set[int]) -> Table:
    """The table without some columns."""
    keep = [i for i in range(len(table.columns)) if i not in dropped]
    rows = tuple(tuple(row[i] for i in keep) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in keep), rows=rows)


def markdown(table: Table) -> str:
    """GitHub's Markdown, intervals in brackets."""

    def plain(text: str) -> str:
        return text.replace("<", "&lt;")  # a name must not become markup

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(plain(cell).replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |"

    lines = [
        f"**{plain(table.title)}**", "",
        line(_short_headings(table, " ")),
        "|" + "|".join(" --- " if column.kind == "text" else " ---: " for column in table.columns) + "|",
        *(line([_with_interval(cell, column) for column, cell in table.pairs(row)]) for row in table.rows),
    ]  # fmt: skip
    return "\n".join([*lines, "", plain(table.caption), ""] if table.caption else [*lines, ""])


def latex(table: Table) -> str:
    """LaTeX with booktabs; groups of columns under one heading."""
    spec = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    lines = [r"\begin{table}", r"  \centering", rf"  \caption{{{tex(table.title + '. ' + table.caption)}}}"]
    lines += [rf"  \begin{{tabular}}{{{spec}}}", r"    \toprule"]
    if table.is_grouped:
        spans = table.spans
        lines.append("    " + " & ".join(_span(name, width) for name, width in spans) + r" \\")
        first = 1
        for name, width in spans:
            if name:
                lines.append(rf"    \cmidrule(lr){{{first}-{first + width - 1}}}")
            first += width
    lines.append("    " + " & ".join(tex(column.name) for column in table.columns) + r" \\")
    lines.append(r"    \midrule")
    for row in table.rows:
        cells = []
        for column, cell in table.pairs(row):
            limits = interval(cell, column)
            cells.append(tex(text(cell, column)) + (rf" {{\scriptsize [{tex(limits)}]}}" if limits else ""))
        lines.append("    " + " & ".join(cells) + r" \\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def comma_separated(table: Table) -> str:
    """CSV: shares in per cent; nine decimals, rounded to the safe side; intervals in columns of their own."""
    intervals = [any(row[i].low is not None for row in table.rows) for i in range(len(table.columns))]
    names: list[str] = []
    for column, has_interval in zip(table.columns, intervals, strict=True):
        names += [heading(column)] + ([f"{heading(column)} low", f"{heading(column)} high"] if has_interval else [])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in table.rows:
        cells: list[str | float] = []
        for (column, cell), has_interval in zip(table.pairs(row), intervals, strict=True):
            kind = cell.kind or column.kind
            cells.append(_plain(cell.value, kind, upper=kind == "shortfall"))
            cells += [_plain(cell.low, kind), _plain(cell.high, kind, upper=True)] if has_interval else []
        writer.writerow(cells)
    return out.getvalue()


def heading(column: Column) -> str:
    """A column's whole name, for formats without groups."""
    return f"{column.group} {column.name}".strip()


def tex(plain: str) -> str:
    """Text for LaTeX: what would be a command becomes a character."""
    special = {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "σ": r"$\sigma$", "λ": r"$\lambda$",
        "√": r"$\surd$", "≥": r"$\geq$", "×": r"$\times$", "α": r"$\alpha$", "ρ": r"$\rho$", "θ": r"$\theta$",
    }  # fmt: skip
    return "".join(special.get(letter, letter) for letter in plain)


def _short_headings(table: Table, between: str) -> list[str]:
    """Names of the columns, with the group's before the first of each group."""
    names, previous = [], ""
    for column in table.columns:
        new = column.group and column.group != previous
        names.append(f"{column.group}{between}{column.name}" if new else column.name)
        previous = column.group
    return names


def _with_interval(cell: Cell, column: Column) -> str:
    limits = interval(cell, column)
    return text(cell, column) + (f" [{limits}]" if limits else "")


def _plain(value: str | float | None, kind: Kind, upper: bool = False) -> str | float:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return f"'{value}" if value[:1] in "=+-@" else value  # a spreadsheet would take it for a formula
    if kind == "length":
        return float((above if upper else down)(value, 9))
    return float(percent(value, upper, 9)) if kind in ("share", "shortfall") else value


def _span(name: str, width: int) -> str:
    return rf"\multicolumn{{{width}}}{{c}}{{{tex(name)}}}" if name else " & ".join([""] * width)
