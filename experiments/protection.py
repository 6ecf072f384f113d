"""Whom certified accuracies protect: for everyone, from admission on, and what a stranger who comes first leaves."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anisocert.data import evenly
from anisocert.errors import ArgumentError
from anisocert.evaluate import ADMITTED, EVERYONE, LEFT, Cell, Column, Table, nearest, short_down
from anisocert.evaluate.comparison import ORDER
from anisocert.evaluate.results import Results
from anisocert.evaluate.table import WHOM
from anisocert.evaluate.withstood import Withstood, line_cells, line_columns, search_words
from anisocert.smoothing import usual
from first import FILE, Measured, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TELLING = 2.0  # times sigma: a radius that fixed noise still certifies for many, and input-dependent noise for more
EXACT = "Intervals are of 95 % confidence about images not seen (Clopper-Pearson)."


def protection_table(lines: Sequence[Measured]) -> Table | None:
    """A line per noise level and method, near one telling radius, of the images that were attacked.

    Certified for everyone, or promised from admission on, and left by a stranger.
    """
    groups = [group for group in _groups(lines) if group[0].protects in (EVERYONE, ADMITTED)]
    pairs = [(group[0], nearest([case.line for case in group], TELLING * group[0].sigma, math.inf)) for group in groups]
    near = [(case, line) for case, line in pairs if line is not None and line.radius is not None]
    if not near:
        return None
    counts = {line.inputs for _, line in near}
    if len(counts) > 1:
        raise ArgumentError(f"expected all runs of a table attacked on as many inputs, got {sorted(counts)}: {FILE}")
    case, (inputs,) = near[0][0], counts
    columns = (
        Column(usual(case.norm).symbol), Column(f"{case.norm} radius"), Column("method"),
        *(Column(f"% {whom}", "share") for whom in (EVERYONE, ADMITTED, LEFT)),
        Column("of the promised, answered otherwise"),
    )  # fmt: skip
    title = f"{case.data}, {case.norm}, {case.recipe}: whom it protects; {inputs:,} inputs"
    return Table(title, columns, tuple(_protected(*pair) for pair in near), f"{_attack(lines)} {EXACT}")


def _protected(case: Measured, line: Withstood) -> tuple[Cell, ...]:
    stated = (Cell(line.certified_share if case.protects == whom else None) for whom in (EVERYONE, ADMITTED))
    lost = f"{line.otherwise:,} of {line.certified:,}" if case.protects == ADMITTED else None
    return (
        Cell(f"{case.sigma:g}"), Cell(short_down(line.radius or 0.0)), Cell(case.method), *stated,
        Cell(line.share, *line.interval()), Cell(lost),
    )  # fmt: skip


def first_table(lines: Sequence[Measured], folder: str = "") -> Table | None:
    """A line per network and method that was attacked first, at one telling radius, and inside the regions.

    folder: of experiments/results, where the lines are.
    """
    rows: list[tuple[Cell, ...]] = []
    for group in _groups(lines):
        trials = [case.line for case in group]
        shown = [nearest(trials, TELLING * group[0].sigma, math.inf), *(line for line in trials if line.radius is None)]
        head = (_noise(group[0]), Cell(group[0].method), Cell(group[0].protects))
        rows += [(*head, *line_cells(line)) for line in shown if line is not None]
    if not rows:
        return None
    norms = " or ".join(dict.fromkeys(case.norm for case in lines))
    columns = (Column("network, noise"), Column("method"), Column(WHOM), *line_columns(norms))
    caption = (
        f"% certified: what the runs state about these inputs. % left: answered with their label after the attack. "
        f"{_attack(lines)} {EXACT} {_command(lines, folder)}"
    )
    return Table(f"What is {LEFT}", columns, tuple(rows), caption)


def attacked_figure(
    lines: Sequence[Measured], runs: Mapping[Run, Results], systems: Sequence[Results] = ()
) -> "Figure":
    """Certified accuracy, and what a stranger leaves of it at the radii of the attack: a panel per network.

    runs: where their rows are kept, for curves instead of squares at these radii. systems: of a last panel, each one
    classifier for all images; what is left of them is at least what is certified.
    """
    from anisocert.report.canvas import colour, new_figure
    from anisocert.report.figures import whiskers

    panels: dict[str, list[list[Measured]]] = {}
    for group in _groups(lines):
        panels.setdefault(str(_noise(group[0]).value), []).append(group)
    count = len(panels) + bool(systems)
    rows = 1 if count <= 3 else 2  # in one row the letters of more would be too small on a page
    columns = -(-count // rows)
    figure = new_figure(2.7 * columns + 0.5, 2.2 * rows + 0.9)
    axes = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for unused in axes[count:]:
        unused.remove()
    axes = axes[:count]
    for axis, (name, groups) in zip(axes, panels.items(), strict=False):
        for place, group in enumerate(groups):
            balls, shade = [case.line for case in group if case.line.radius is not None], colour(group[0].method)
            radii = [float(ball.radius or 0.0) for ball in balls]
            label = f"{group[0].method}: {group[0].protects}"
            if group[0].of in runs:
                _draw_curve(axis, _attacked(runs[group[0].of], balls), color=shade, label=label)
            else:
                certified = [100 * ball.certified_share for ball in balls]
                axis.plot(radii, certified, color=shade, marker="s", markersize=2.5, ls="", label=label)
            low, high = zip(*(ball.interval() for ball in balls), strict=True)
            beside = [radius + 0.008 * (place - (len(groups) - 1) / 2) * radii[-1] for radius in radii]
            whiskers(axis, beside, [ball.share for ball in balls], low, high, shade, group[0].method)
        axis.set(xlim=(-0.03 * radii[-1], 1.03 * radii[-1]), xlabel=f"{groups[0][0].norm} radius")
        axis.set(ylim=(0, 102), title=name)
        axis.grid(visible=True)
    if systems:
        _draw_systems(axes[-1], systems)
    for first in axes[::columns]:
        first.set_ylabel("% of the images")
    handles = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(3, len(axes) + 1), fontsize=7)
    return figure


def _draw_systems(axis: "Axes", systems: Sequence[Results]) -> None:
    """Certified accuracy of classifiers of several noise levels, to where a twentieth of the images is left."""
    from anisocert.report.canvas import colour

    styles = itertools.cycle(("-", "--", ":"))
    for one in systems:
        level = "" if one.sigma is None or one.method == "cascade" else f", {usual(one.norm).symbol} = {one.sigma:g}"
        _draw_curve(
            axis, one, color=colour(one.method), label=f"{one.method}{level}: {one.protects}",
            linestyle="-" if one.method == "cascade" else next(styles),
        )  # fmt: skip
    end = max(float(np.quantile(one.certified(), 0.95)) for one in systems)
    axis.set(xlim=(0, end), xlabel=f"{systems[0].norm} radius", title="one system, stronger networks")
    axis.grid(visible=True)


def _draw_curve(axis: "Axes", results: Results, **style: Any) -> None:
    at, share = results.curve()
    axis.step([*at, at[-1]], [*100 * share, 0.0], where="pre", **style)


def _attacked(run: Results, balls: Sequence[Withstood]) -> Results:
    """A run's results on the inputs that were attacked; an error if these cannot be they."""
    some = run.only(run.ids[evenly(len(run), balls[0].inputs)])
    counts = np.rint(some.accuracy([ball.radius or 0.0 for ball in balls]) * len(some)).astype(int).tolist()
    if counts != (stated := [ball.certified for ball in balls]):
        raise ArgumentError(f"expected {stated} inputs certified, as in {FILE}, got {counts} in the rows: {run.label}")
    return some


def _groups(lines: Sequence[Measured]) -> list[list[Measured]]:
    """The lines of each run, in the order of the file; of one network, methods in their usual order."""
    groups: dict[tuple[str, str, float, str, str], list[Measured]] = {}
    for case in lines:
        groups.setdefault((case.norm, case.recipe, case.sigma, case.method, case.protects), []).append(case)
    networks = list(dict.fromkeys(key[:3] for key in groups))
    rank = {name: place for place, name in enumerate(ORDER)}
    order = sorted(groups, key=lambda key: (networks.index(key[:3]), rank.get(key[3], len(ORDER))))
    return [groups[key] for key in order]


def _noise(case: Measured) -> Cell:
    return Cell(f"{case.recipe}, {usual(case.norm).symbol} = {case.sigma:g}")


def _command(lines: Sequence[Measured], folder: str) -> str:
    """What measures such lines, with the radii of the first network, and where the others are."""
    radii = dict.fromkeys(case.line.radius for case in _groups(lines)[0] if case.line.radius)
    options = " ".join((*(f"--radius {radius:g}" for radius in radii), f"--max {lines[0].line.inputs}"))
    return (
        f"For {_noise(lines[0]).value}: `anisocert attack RUN --first {options}`; which runs these are: "
        f"docs/reproduction.md; all radii: {'/'.join(filter(None, ('experiments/results', folder, FILE)))}."
    )


def _attack(lines: Sequence[Measured]) -> str:
    """How strong the attack was; of several, each."""
    efforts = dict.fromkeys(search_words(case.starts, case.steps, case.samples, case.n) for case in lines)
    inputs = sorted({case.line.inputs for case in lines})
    many = f"{inputs[0]:,}" if len(inputs) == 1 else f"{inputs[0]:,} to {inputs[-1]:,}"
    return (
        f"The whole system, with an empty memory, attacked on {many} images before it has seen them: "
        f"{'; '.join(efforts)}. A stronger attack may leave less."
    )
