"""Tables of an experiment: networks of several noise levels and recipes, each certified by several methods."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from anisocert.evaluate import Comparison, Entry, wilson
from anisocert.evaluate.beside_paper import their_numbers
from anisocert.evaluate.cells import accuracies, averages, medians, noise
from anisocert.evaluate.labels import AS_PUBLISHED, algorithm, kept_of
from anisocert.evaluate.paper import Published, published
from anisocert.evaluate.protection import EVERYONE, OWN, either
from anisocert.evaluate.results import Results
from anisocert.evaluate.table import WHOM, Cell, Column, Kind, Table, short_down
from anisocert.evaluate.tables import table_radii
from anisocert.optimize.published import PublishedIsotropic

OURS, THEIRS = "anisotropic", "anisotropic" + AS_PUBLISHED
THEIR_START = "isotropic" + AS_PUBLISHED
ALGORITHMS = ("fixed", "average", THEIR_START, "isotropic", THEIRS, OURS)
MEMORIES = ("volume", "ball")
UNBOUND = f"before the memory ({OWN}; fixed and average noise: {EVERYONE})"
MEDIANS = ("median", "median~")
TYPICAL: tuple[tuple[str, Kind], ...] = (("% at 0", "share"), *((name, "length") for name in MEDIANS))
FACTORS = (0.0, 1.0, 2.0)  # times sigma: radii that fixed noise still certifies for many
INTERVALS = (
    "Medians of radius and proxy radius (~): what half of the inputs reach. In brackets: 95 % intervals about inputs "
    "not seen (Wilson; of medians exact, by order); after a memory, where answers depend on earlier ones, approximate."
)
THREE: tuple[tuple[str, Kind], ...] = (("% at 0", "share"), ("ACR", "length"), ("ACR~", "length"))


def before(comparison: Comparison, name: str, sigma: float) -> Results | None:
    """Results of an algorithm at a noise level, before any memory; None where it was not run."""
    return next((entry.before for entry in _entries(comparison, name, sigma)), None)


def after(comparison: Comparison, name: str, sigma: float, kept: str = "volume") -> Results | None:
    """The same after a memory of this kind; one noise for all inputs needs none."""
    entries = _entries(comparison, name, sigma)
    if entries and entries[0].before.stage == "not needed":
        return entries[0].before
    return next((entry.after for entry in entries if entry.after is not None and kept_of(entry.run) == kept), None)


def level_table(comparison: Comparison) -> Table:
    """A line per noise level and method: before the memory, and what is left after each kind of memory."""
    at, rows, bound = table_radii(comparison), [], list[Results | None]()
    for sigma in comparison.sigmas:
        for name in ALGORITHMS:
            if (results := before(comparison, name, sigma)) is not None:
                kept_by = [after(comparison, name, sigma, kept) for kept in MEMORIES]
                bound += [later for later in kept_by if results.stage == "before"]
                left = [cell for later in kept_by for cell in _typical(later)]
                rows.append((noise(results), Cell(name), *accuracies(results, at), *medians(results), *left))
    columns = (
        Column(comparison.symbol), Column("method"),
        *(Column(short_down(radius), "share", f"% certified at {comparison.norm} radius") for radius in at),
        *(Column(name, "length") for name in MEDIANS),
        *(Column(name, kind, f"after memory ({kept}):") for kept in MEMORIES for name, kind in TYPICAL),
    )  # fmt: skip
    caption = (
        f"Accuracies and the first medians of radius and proxy radius (~) are before the memory: {OWN}. After it: "
        f"{whom_of(bound)}; regions that had to make room kept the most volume, or the largest inscribed ball. Fixed "
        f"and average noise need no memory: {EVERYONE}. {within(len(comparison))}"
    )
    title = f"{comparison.data}, {comparison.recipe or 'networks'}, {comparison.norm}: {len(comparison):,} inputs"
    return Table(title, columns, tuple(rows), caption)


def headline_table(comparison: Comparison) -> Table | None:
    """A line per noise level and method, of a deployed system: accuracies, and what half of the inputs reach.

    Of fixed noise, the published algorithm and ours; a noise level that lacks one which another level has is left out.
    """
    algorithms = {algorithm(entry.run) for entry in comparison.entries}
    names, rows = [name for name in ("fixed", THEIRS, OURS) if name in algorithms], []
    for sigma in comparison.sigmas:
        by_method = [(name, results) for name in names if (results := after(comparison, name, sigma)) is not None]
        if len(by_method) < len(names):
            continue
        for name, results in by_method:
            shares = accuracies(results, [factor * sigma for factor in FACTORS])
            rows.append((noise(results), Cell(name), Cell(results.protects), *shares, *medians(results)))
    columns = (
        Column(comparison.symbol), Column("method"), Column(WHOM),
        *(Column("0" if factor == 0 else f"{factor:g} {comparison.symbol}", "share", f"% at {comparison.norm} radius")
          for factor in FACTORS),
        *(Column(name, "length") for name in MEDIANS),
    )  # fmt: skip
    title = f"{comparison.data}, {comparison.norm}, {comparison.recipe}: {len(comparison):,} inputs, after the memory"
    return Table(title, columns, tuple(rows), INTERVALS) if rows else None


def many_table(comparison: Comparison) -> Table:
    """A line per noise level of fixed noise and of ours, on more inputs than the others were certified on."""
    at, rows = table_radii(comparison), []
    for sigma in comparison.sigmas:
        for name in ("fixed", OURS):
            if (results := after(comparison, name, sigma)) is not None:
                rows.append(
                    (noise(results), Cell(name), Cell(results.protects), *accuracies(results, at), *medians(results))
                )
    columns = (
        Column(comparison.symbol), Column("method"), Column(WHOM),
        *(Column(short_down(radius), "share", f"% certified at {comparison.norm} radius") for radius in at),
        *(Column(name, "length") for name in MEDIANS),
    )  # fmt: skip
    title = f"{comparison.data}, {comparison.norm}, {comparison.recipe}: {len(comparison):,} inputs, after the memory"
    return Table(title, columns, tuple(rows), INTERVALS)


def within(inputs: int) -> str:
    """How far an accuracy of so many inputs may be from that of all, in words."""
    seen = np.arange(inputs + 1) / inputs
    low, high = wilson(seen * inputs, inputs)
    farthest = 100 * float(np.maximum(seen - low, high - seen).max())
    return (
        "In brackets: 95 % intervals of the medians about inputs not seen, exact by order; after a memory, where "
        "answers depend on earlier ones, approximate. The interval of an accuracy reaches at most "
        f"{math.ceil(10 * farthest - 1e-9) / 10:g} points from it."
    )


def their_steps(comparisons: Iterable[Comparison]) -> str:
    """How many of its isotropic steps the published algorithm was given, in words; nothing where it had them all."""
    default = PublishedIsotropic().iterations
    runs = (
        e.run for comparison in comparisons for e in comparison.entries if algorithm(e.run) in (THEIR_START, THEIRS)
    )
    counts = sorted({int(steps) for run in runs if (steps := run.said("iterations") or default) < default})
    return f"Published: with {' or '.join(map(str, counts))} of its {default} isotropic steps." if counts else ""


def sigma_table(comparison: Comparison) -> Table | None:
    """What a deployed system certifies at each noise level: our choice of theta, after the memory."""
    at = table_radii(comparison)
    levels = [results for sigma in comparison.sigmas if (results := after(comparison, OURS, sigma)) is not None]
    rows = [(noise(results), *accuracies(results, at), *medians(results)) for results in levels]
    columns = (
        Column(comparison.symbol),
        *(Column(short_down(radius), "share", f"% certified at {comparison.norm} radius") for radius in at),
        *(Column(name, "length") for name in MEDIANS),
    )
    title = f"Noise levels: {OURS}, {comparison.recipe}, after the memory"
    caption = f"{len(comparison):,} inputs, {whom_of(levels)}. {within(len(comparison))}"
    return Table(title, columns, tuple(rows), caption) if rows else None


def average_table(comparisons: Sequence[Comparison]) -> Table | None:
    """One theta for all inputs, the mean of those chosen for each, beside fixed noise, the choice, and the paper's."""
    rows, bound = [], list[Results | None]()
    for comparison in comparisons:
        for sigma in comparison.sigmas:
            if before(comparison, "average", sigma) is None:
                continue
            head = (*place(comparison, f"{sigma:g}"), Cell(float(len(comparison))))
            cells = [three(before(comparison, name, sigma)) for name in ("fixed", "average", OURS)]
            bound.append(after(comparison, OURS, sigma))
            rows.append((*head, Cell("here"), *_by_number([*cells, three(bound[-1])])))
            paper = published(comparison.data, comparison.norm, comparison.recipe, sigma)
            if paper is not None:
                cells = [_their_three(paper.rows.get(name)) for name in ("fixed", "average", OURS)]
                rows.append((*head[:-1], Cell(None), Cell("paper"), *_by_number([*cells, three(None)])))
    columns = (
        Column("recipe"), Column("noise"), Column("inputs", "count"), Column("numbers"),
        *(Column(name, kind, group)
          for group, kind in THREE for name in ("fixed", "average", OURS, f"{OURS}, after memory")),
    )  # fmt: skip
    caption = (
        f"Fixed and average noise need no memory: {EVERYONE}. The third column of each group is before it, as in the "
        f"paper: {OWN}. The last: {whom_of(bound)}."
    )
    return Table("One average theta for all inputs", columns, tuple(rows), caption) if rows else None


def place(comparison: Comparison, level: str) -> tuple[Cell, Cell]:
    """Recipe and noise level, the first cells of a line."""
    return Cell(comparison.recipe), Cell(level if level == "oracle" else f"{comparison.symbol} {level}")


def whom_of(results: Iterable[Results | None]) -> str:
    """Whom some results protect; of several phrases all."""
    return either(result.protects for result in results if result is not None) or "not run"


def three(one: Results | None) -> list[Cell]:
    """Accuracy at radius 0, ACR and ACR~."""
    return [Cell(None)] * 3 if one is None else [*accuracies(one, [0.0]), *averages([one])]


def _typical(results: Results | None) -> list[Cell]:
    """Accuracy at radius 0 and the medians."""
    return [Cell(None)] * len(TYPICAL) if results is None else [*accuracies(results, [0.0]), *medians(results)]


def _entries(comparison: Comparison, name: str, sigma: float) -> list[Entry]:
    return [entry for entry in comparison.entries if (algorithm(entry.run), entry.before.sigma) == (name, sigma)]


def _their_three(row: Published | None) -> list[Cell]:
    if row is None:
        return three(None)
    at_zero, *_, acr, acr_proxy = their_numbers(row)
    return [at_zero, acr, acr_proxy]


def _by_number(methods: Sequence[Sequence[Cell]]) -> list[Cell]:
    """The first number of every method, then the second of every method."""
    return [cells[i] for i in range(len(THREE)) for cells in methods]
