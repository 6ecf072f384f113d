"""The tables of a comparison."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from anisocert.evaluate.beside_paper import RULES, against_paper
from anisocert.evaluate.cells import accuracies, averages, best_accuracies, medians, noise
from anisocert.evaluate.comparison import Comparison
from anisocert.evaluate.intervals import wilson
from anisocert.evaluate.paper import published
from anisocert.evaluate.protection import AT_EACH, NOBODY, SEEN, explained
from anisocert.evaluate.results import Results, Size, numbers
from anisocert.evaluate.sigmas import oracle
from anisocert.evaluate.supersets import supersets
from anisocert.evaluate.table import WHOM, Cell, Column, Table, probability, short_down
from anisocert.evaluate.withstood import attacked_first
from anisocert.memory import NOTES
from anisocert.rounding import round_numbers

RHO = 0.001
COUNTED = 7  # radii per table


def tables_of(comparison: Comparison) -> list[Table]:
    """Every table that these runs can fill."""
    tables = [
        summary(comparison), attacked_first(comparison), claims(comparison), supersets(comparison),
        memory_effect(comparison), runtime(comparison), against_paper(comparison),
    ]  # fmt: skip
    return [table for table in tables if table is not None]


def summary(comparison: Comparison, radii: Sequence[float] | None = None, size: Size = "radius") -> Table:
    """Certified accuracy at several radii, means, medians and abstentions, with 95 % intervals: a line per run."""
    at = list(radii or table_radii(comparison, size))
    name = "radius" if size == "radius" else "proxy radius"
    columns = (
        Column("method"), Column(comparison.symbol), Column("memory"), Column(WHOM),
        *(Column(short_down(r), "share", f"% certified at {comparison.norm} {name}") for r in at),
        Column("median radius", "length"), Column("ACR", "length"), Column("ACR~", "length"),
        Column("abstains (%)", "shortfall"),
    )  # fmt: skip
    rows, marks = [], []
    for results in comparison.stages():
        rows.append(_line(results, at, size))
        marks.append(results.stage)
    for family in comparison.families():
        if all(results.knows(size) for results in family):
            rows += _best_lines(family, at, size)
            marks += [family[0].stage] * 2
    return Table(
        f"{comparison.data}, {comparison.norm}: {len(comparison):,} inputs", columns, tuple(rows),
        _summary_caption(comparison), tuple(marks),
    )  # fmt: skip


def claims(comparison: Comparison, radii: Sequence[float] | None = None) -> Table | None:
    """Certified accuracy that holds for all these inputs at once, although every certificate may fail with alpha.

    What a memory promises holds with no probability involved, so only results before it have a line.
    """
    at = list(radii or table_radii(comparison))
    pairs = [
        (results, results.alpha)
        for results in comparison.stages()
        if results.alpha is not None and results.stage != "after"
    ]
    if not pairs:
        return None
    columns = (
        Column("method"), Column(comparison.symbol), Column(WHOM), Column("α"),
        *(Column(short_down(r), "share", f"at least % at {comparison.norm} radius") for r in at),
    )  # fmt: skip
    rows = [
        (
            Cell(results.label), noise(results), Cell(results.protects), Cell(probability(alpha)),
            *(Cell(float(share)) for share in results.claim(at, RHO)),
        )
        for results, alpha in pairs
    ]  # fmt: skip
    return Table(
        f"What may be claimed of the {len(comparison):,} inputs together", columns, tuple(rows),
        "α is the probability that the certificate of one given input is wrong, over the noise drawn for it. These "
        "accuracies leave room for as many wrong certificates as may occur: each line is right with "
        f"probability {1 - RHO:g}, by itself and for these inputs.",
        tuple(results.stage for results, _ in pairs),
    )  # fmt: skip


def memory_effect(comparison: Comparison) -> Table | None:
    """What a memory did to a run's answers: a line per run."""
    rows = []
    for entry in comparison.entries:
        if entry.after is None:
            continue
        counts = Counter(entry.run.column("memory_note")[entry.shared].tolist())
        before, after = entry.before, entry.after
        count_cells = (Cell(float(counts[note])) for note in NOTES)
        means = (cell for results in (before, after) for cell in (Cell(results.mean()), Cell(results.protects)))
        rows.append((Cell(before.label), noise(before), *count_cells, *means))
    if not rows:
        return None
    columns = (
        Column("method"), Column(comparison.symbol), *(Column(note, "count", "answers") for note in NOTES),
        *(column for stage in ("before it", "after it")
          for column in (Column("ACR", "length", stage), Column(WHOM, group=stage))),
    )  # fmt: skip
    caption = (
        "kept: certified as proposed; shrunk: made room for earlier regions of other classes; inherited: lies in "
        "an earlier region and takes its class; abstained: no answer. Inputs arrive in order of their ids."
    )
    return Table("What the memory did", columns, tuple(rows), caption)


def runtime(comparison: Comparison) -> Table | None:
    """Seconds and votes per input: a line per run."""
    rows = []
    for entry in comparison.entries:
        seconds, votes = (numbers(entry.run, name)[entry.shared] for name in ("seconds", "votes"))
        if np.isnan(seconds).all():
            continue
        rows.append(
            (
                Cell(entry.before.label), noise(entry.before), Cell(float(np.nanmean(seconds))),
                Cell(float(np.nanmedian(seconds))), Cell(float(np.nansum(seconds))),
                Cell(None if np.isnan(votes).all() else float(np.nanmean(votes))),
                Cell(str(entry.run.said("device") or "not recorded")),
            )
        )  # fmt: skip
    if not rows:
        return None
    columns = (
        Column("method"), Column(comparison.symbol), Column("mean (s)", "seconds"),
        Column("median (s)", "seconds"), Column("total (s)", "seconds"),
        Column("votes per input", "count"), Column("device"),
    )  # fmt: skip
    return Table(
        "What it cost", columns, tuple(rows), "Seconds per input, including the choice of the noise and all votes."
    )


def table_radii(comparison: Comparison, size: Size = "radius") -> tuple[float, ...]:
    """Sizes worth a column: the paper's where it has this data, else round numbers up to the largest certificates."""
    paper = published(comparison.data, comparison.norm, comparison.recipe)
    if paper is not None:
        return paper.radii
    sizes = [entry.before.certified(size) for entry in comparison.entries if entry.before.knows(size)]
    return round_steps(float(np.quantile(np.concatenate(sizes), 0.98)) if any(map(len, sizes)) else 0.0)


def round_steps(top: float) -> tuple[float, ...]:
    """0 and six multiples of a round number, the last one near `top`."""
    if not top > 0:
        return (0.0,)
    step = min(round_numbers(top / (COUNTED - 1)), key=lambda s: abs(s * (COUNTED - 1) - top))
    return tuple(float(f"{i * step:.12g}") for i in range(COUNTED))


def _line(results: Results, at: Sequence[float], size: Size) -> tuple[Cell, ...]:
    interval = wilson(round(results.abstention * len(results)), len(results))
    return (
        *_head(results), *accuracies(results, at, size), medians(results)[0], *averages([results]),
        Cell(results.abstention, float(interval[0]), float(interval[1])),
    )  # fmt: skip


def _best_lines(family: Sequence[Results], at: Sequence[float], size: Size) -> list[tuple[Cell, ...]]:
    """A method at its noise levels, by the two rules."""
    first, levels = family[0], f"best of {len(family)}"
    best = best_accuracies(family, at, size)
    line = list(_line(oracle(family, size), at, size))
    line[1], line[-3:-1] = Cell(levels), averages(family)
    head = (Cell(f"{first.label}, envelope"), Cell(levels), Cell(first.stage), Cell(f"{first.protects}{AT_EACH}"))
    return [(*head, *best, *[Cell(None)] * 4), tuple(line)]


def _head(results: Results) -> tuple[Cell, ...]:
    return Cell(results.label), noise(results), Cell(results.stage), Cell(results.protects)


def _summary_caption(comparison: Comparison) -> str:
    parts = [SEEN] if any(entry.seen for entry in comparison.entries) else []
    parts += [
        f"Intervals, where shown, are of 95 % confidence about {comparison.others} (Wilson; of medians exact, by "
        "order; bootstrap for means); after a memory, where answers depend on earlier ones, they are approximate.",
        "ACR, ACR~: means of radius and proxy radius, 0 where the answer is wrong; a few huge regions can inflate "
        "them. Median radius: reached by half of the inputs.",
    ]
    families = list(comparison.families())
    if families:
        parts.append(RULES)
    if len(comparison.entries) > 1:
        parts.append(
            "Each line is about one run. Whoever picks the best of several must add up their α: the probability that a "
            "given input's certificate is wrong."
        )
    if comparison.mixed:
        parts.append(
            "The runs are of several networks, or of one in several precisions or grids: what differs may be due to "
            "these, not to the methods."
        )
    phrases = {results.protects for results in comparison.stages()} | ({NOBODY} if families else set())
    parts.append(explained(phrases))
    if any(entry.run.imported for entry in comparison.entries):
        parts.append("Radii of imported logs are as the logs have them, which may have been rounded up.")
    if comparison.left_out:
        parts.append(f"{comparison.left_out:,} inputs that not all of the runs have are left out.")
    return " ".join(parts)
