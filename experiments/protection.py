"""Whom certified accuracies protect: for everyone, from admission on, and what a stranger who comes first leaves."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from anisocert.evaluate import ADMITTED, EVERYONE, LEFT, Cell, Column, Comparison, Table, nearest, short_down
from anisocert.evaluate.comparison import ORDER
from anisocert.evaluate.results import Results
from anisocert.evaluate.table import WHOM
from anisocert.evaluate.tables import table_radii
from anisocert.evaluate.withstood import Withstood, line_cells, line_columns, search_words
from anisocert.smoothing import usual
from first import Measured
from levels import OURS, after

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TELLING = 2.0  # times sigma: a radius that fixed noise still certifies for many, and input-dependent noise for more
EXACT = "Intervals are of 95 % confidence about images not seen (Clopper-Pearson)."


def protection_table(comparison: Comparison, lines: Sequence[Measured]) -> Table | None:
    """A line per noise level: certified for everyone, promised from admission on, and left by a stranger.

    All three of the images that were attacked; where none were, the first two of the whole comparison.
    """
    same = _of(lines, comparison.data, comparison.norm, comparison.recipe)
    rows = _attacked_rows(same) if same else _certified_rows(comparison)
    if not rows:
        return None
    inputs = max(one.line.inputs for one in same) if same else len(comparison)
    columns = (
        Column(comparison.symbol), Column(f"{comparison.norm} radius"),
        Column("fixed noise", "share", f"% {EVERYONE}:"), Column("ours", "share", f"% {ADMITTED}:"),
        *((Column("fixed noise", "share", f"% {LEFT}:"), Column("ours", "share", f"% {LEFT}:"),
           Column("of the promised, answered otherwise")) if same else ()),
    )  # fmt: skip
    title = f"{comparison.data}, {comparison.norm}, {comparison.recipe}: whom it protects; {inputs:,} inputs"
    return Table(title, columns, tuple(rows), f"{_attack(same)} {EXACT}" if same else "")


def first_table(lines: Sequence[Measured]) -> Table | None:
    """A line per network and method that was attacked first, at one telling radius, and inside the regions."""
    rows: list[tuple[Cell, ...]] = []
    for group in _groups(lines):
        told = [one.line for one in group]
        shown = [nearest(told, TELLING * group[0].sigma, math.inf), *(one for one in told if one.radius is None)]
        head = (_noise(group[0]), Cell(group[0].method), Cell(group[0].protects))
        rows += [(*head, *line_cells(line)) for line in shown if line is not None]
    if not rows:
        return None
    norms = " or ".join(dict.fromkeys(one.norm for one in lines))
    columns = (Column("network, noise"), Column("method"), Column(WHOM), *line_columns(norms))
    caption = (
        f"% certified: what the runs state about these inputs. % left: answered with their label after the attack. "
        f"{_attack(lines)} {EXACT} {_command(lines)}"
    )
    return Table(f"What is {LEFT}", columns, tuple(rows), caption)


def attacked_figure(lines: Sequence[Measured]) -> "Figure":
    """Certified accuracy and what a stranger leaves of it, at the radii of the attack: a panel per network."""
    from anisocert.report.canvas import colour, new_figure
    from anisocert.report.figures import whiskers

    panels: dict[str, list[list[Measured]]] = {}
    for group in _groups(lines):
        panels.setdefault(str(_noise(group[0]).value), []).append(group)
    figure = new_figure(2.5 * len(panels) + 0.5, 3.1)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (name, groups) in zip(axes, panels.items(), strict=True):
        for place, group in enumerate(groups):
            balls, shade = [one.line for one in group if one.line.radius is not None], colour(group[0].method)
            radii = [float(one.radius or 0.0) for one in balls]
            axis.plot(
                radii, [100 * one.certified_share for one in balls], color=shade, marker="s", markersize=2.5,
                label=f"{group[0].method}: {group[0].protects}",
            )  # fmt: skip
            low, high = zip(*(one.interval() for one in balls), strict=True)
            beside = [radius + 0.008 * (place - (len(groups) - 1) / 2) * radii[-1] for radius in radii]
            whiskers(axis, beside, [one.share for one in balls], low, high, shade, group[0].method)
        axis.set(ylim=(0, 102), xlabel=f"{groups[0][0].norm} radius", title=name)
        axis.grid(visible=True)
    axes[0].set_ylabel("% of the images")
    told = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(told.values(), told.keys(), loc="outside lower center", ncols=min(3, len(axes) + 1), fontsize=7)
    return figure


def _attacked_rows(lines: Sequence[Measured]) -> list[tuple[Cell, ...]]:
    """At a radius near the telling one, of both runs."""
    rows = []
    for sigma in sorted({one.sigma for one in lines}):
        found = {name: [one.line for one in lines if (one.method, one.sigma) == (name, sigma)]
                 for name in ("fixed", OURS)}  # fmt: skip
        fixed, ours = (nearest(part, TELLING * sigma, math.inf) for part in found.values())
        if fixed is not None and ours is not None and fixed.radius == ours.radius and ours.radius is not None:
            certified = (Cell(one.certified_share) for one in (fixed, ours))
            left = (Cell(one.share, *one.interval()) for one in (fixed, ours))
            head = (Cell(f"{sigma:g}"), Cell(short_down(ours.radius)))
            rows.append((*head, *certified, *left, Cell(_otherwise(ours))))
    return rows


def _otherwise(line: Withstood) -> str:
    return f"{line.otherwise:,} of {line.certified:,}"


def _certified_rows(comparison: Comparison) -> list[tuple[Cell, ...]]:
    rows = []
    for sigma in comparison.sigmas:
        at = min((radius for radius in table_radii(comparison) if radius), key=lambda r: abs(r - TELLING * sigma))
        found: list[Results | None] = [after(comparison, name, sigma) for name in ("fixed", OURS)]
        whole = [one for one in found if one is not None]
        if [one.protects for one in whole] == [EVERYONE, ADMITTED]:
            shares = (Cell(float(one.accuracy(at)[0])) for one in whole)
            rows.append((Cell(f"{sigma:g}"), Cell(short_down(at)), *shares))
    return rows


def _of(lines: Iterable[Measured], data: str, norm: str, recipe: str | None) -> list[Measured]:
    """Those of some networks that say what the table's columns are called."""
    kinds = {("fixed", EVERYONE), (OURS, ADMITTED)}
    return [
        one
        for one in lines
        if (one.data, one.norm, one.recipe) == (data, norm, recipe) and (one.method, one.protects) in kinds
    ]


def _groups(lines: Sequence[Measured]) -> list[list[Measured]]:
    """The lines of each run, in the order of the file; of one network, methods in their usual order."""
    groups: dict[tuple[str, str, float, str, str], list[Measured]] = {}
    for one in lines:
        groups.setdefault((one.norm, one.recipe, one.sigma, one.method, one.protects), []).append(one)
    networks = list(dict.fromkeys(key[:3] for key in groups))
    rank = {name: place for place, name in enumerate(ORDER)}
    order = sorted(groups, key=lambda key: (networks.index(key[:3]), rank.get(key[3], len(ORDER))))
    return [groups[key] for key in order]


def _noise(one: Measured) -> Cell:
    return Cell(f"{one.recipe}, {usual(one.norm).symbol} = {one.sigma:g}")


def _command(lines: Sequence[Measured]) -> str:
    """What measures such lines, with the radii of the first network, and where the others are."""
    radii = dict.fromkeys(one.line.radius for one in _groups(lines)[0] if one.line.radius)
    asked = " ".join(f"--radius {radius:g}" for radius in radii)
    return (
        f"For {_noise(lines[0]).value}: `anisocert attack RUN --first {asked}`; which runs these are: "
        "docs/reproduction.md; all radii: experiments/results/attacked-first.tsv."
    )


def _attack(lines: Sequence[Measured]) -> str:
    """How strong the attack was; of several, each."""
    efforts = dict.fromkeys(search_words(one.starts, one.steps, one.samples, one.n) for one in lines)
    inputs = sorted({one.line.inputs for one in lines})
    many = f"{inputs[0]:,}" if len(inputs) == 1 else f"{inputs[0]:,} to {inputs[-1]:,}"
    return (
        f"The whole system, with an empty memory, attacked on {many} images before it has seen them: "
        f"{'; '.join(efforts)}. A stronger attack may leave less."
    )
