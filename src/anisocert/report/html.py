"""Pieces of HTML. Everything that is not markup made here is escaped."""

from html import escape
from itertools import groupby

from anisocert.evaluate import Table
from anisocert.evaluate.table import WHOM, interval, text


def tag(name: str, *content: str, **attributes: str) -> str:
    """An element around pieces of HTML; attribute values are text and get escaped, `class_` is `class`."""
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{said}>{''.join(content)}</{name}>"


def words(name: str, content: str, **attributes: str) -> str:
    """An element around plain text."""
    return tag(name, escape(content), **attributes)


def table_html(table: Table) -> str:
    """A table with its confidence intervals in small print, its title above and its notes below."""
    head = ""
    if any(column.group for column in table.columns):
        spans = [(group, len(list(columns))) for group, columns in groupby(table.columns, key=lambda c: c.group)]
        head = tag("tr", *(words("th", group, colspan=str(n), class_="span" if group else "") for group, n in spans))
    kinds = [
        "text phrase" if column.name == WHOM else "text" if column.kind == "text" else "" for column in table.columns
    ]
    names = (words("th", c.name, class_=kind) for c, kind in zip(table.columns, kinds, strict=True))
    lines = []
    marks = table.marks or ("",) * len(table.rows)
    for row, mark in zip(table.rows, marks, strict=True):
        cells = []
        for cell, column, kind in zip(row, table.columns, kinds, strict=True):
            limits = interval(cell, column)
            small = words("small", limits) if limits else ""
            cells.append(tag("td", escape(text(cell, column)), small, class_=kind))
        # what a memory has replaced is history
        lines.append(tag("tr", *cells, class_="dim" if mark == "before" and "after" in marks else ""))
    title = words("h4", table.title, class_="table") if table.title else ""
    whole = tag("table", tag("thead", head, tag("tr", *names)), tag("tbody", *lines))
    note = words("p", table.caption, class_="small soft") if table.caption else ""
    return title + tag("div", whole, class_="scroll") + note
