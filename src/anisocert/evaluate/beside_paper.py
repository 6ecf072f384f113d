"""One's own numbers beside the paper's."""

from collections.abc import Sequence

import numpy as np

from anisocert.evaluate.comparison import Comparison
from anisocert.evaluate.intervals import bootstrap, wilson
from anisocert.evaluate.paper import NOTE_L1, PaperTable, published
from anisocert.evaluate.results import Results, Size
from anisocert.evaluate.sigmas import oracle
from anisocert.evaluate.table import Cell, Column, Table, down


def against_paper(comparison: Comparison) -> Table | None:
    """A line a radius, and for each method two columns, ours and the paper's; None where the paper has no such data.

    Ours are before the memory, which the paper never ran, and best over the noise levels by its own rule.
    """
    told = published(comparison.data, comparison.norm, comparison.entries[0].recipe)
    if told is None:
        return None
    ours = {method: _levels(comparison, method) for method in told.rows}
    methods = [method for method, levels in ours.items() if levels]
    if not methods:
        return None
    columns = [Column(f"{comparison.norm} radius")]
    for method in methods:
        columns += [Column("ours", "share", method), Column("paper", "share", method)]
    rows = []
    for i, radius in enumerate(told.radii):
        line = [Cell(down(radius))]
        for method in methods:
            best = _best(ours[method], "radius")
            share = float(best.accuracy(radius)[0])
            low, high = wilson(np.rint(share * len(best)), len(best))
            line += [Cell(share, float(low), float(high)), Cell(f"{100 * told.rows[method].accuracy[i]:.0f}")]
        rows.append(tuple(line))
    rows += [_means(ours, told, methods, "radius"), _means(ours, told, methods, "proxy_radius")]
    return Table(
        f"Beside the paper: {comparison.data}, {comparison.norm}, before the memory", tuple(columns), tuple(rows),
        _caption(comparison, told, ours, methods),
    )  # fmt: skip


def _means(ours: dict[str, list[Results]], told: PaperTable, methods: Sequence[str], size: Size) -> tuple[Cell, ...]:
    """ACR or ACR~, in the rows under the accuracies."""
    line = [Cell("ACR" if size == "radius" else "ACR~")]
    for method in methods:
        mine = Cell(None)
        if all(one.knows(size) for one in ours[method]):
            best = _best(ours[method], size)
            mine = Cell(best.mean(size), *bootstrap(best.certified(size)), kind="length")
        row = told.rows[method]
        told_mean = row.acr if size == "radius" else row.acr_proxy
        line += [mine, Cell(down(told_mean + 1e-9))]  # 0.722, although the double nearest to it lies below
    return tuple(line)


def _levels(comparison: Comparison, method: str) -> list[Results]:
    """A method's results before the memory at its noise levels; of several runs at one level, the first."""
    found: dict[float | None, Results] = {}
    for entry in comparison.entries:
        if entry.before.method == method:
            found.setdefault(entry.before.sigma, entry.before)
    return list(found.values())


def _best(levels: Sequence[Results], size: Size) -> Results:
    return oracle(levels, size) if len(levels) > 1 else levels[0]


def _caption(comparison: Comparison, told: PaperTable, ours: dict[str, list[Results]], methods: Sequence[str]) -> str:
    parts = [
        f"Paper: {told.source}, {told.recipe} training, {told.network}, {told.rule} over σ in "
        f"{', '.join(f'{sigma:g}' for sigma in told.sigmas)}; rounded to nearest there."
    ]
    levels = sorted({one.sigma for method in methods for one in ours[method] if one.sigma is not None})
    rule = "oracle over" if len(levels) > 1 else "at the single"
    parts.append(f"Ours: {rule} {comparison.symbol} {', '.join(f'{sigma:g}' for sigma in levels)}.")
    if told.norm == "l1":
        parts.append(NOTE_L1)
    return " ".join(parts)
