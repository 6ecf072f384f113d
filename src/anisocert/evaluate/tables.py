"""The tables of a comparison."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from anisocert.evaluate.beside_paper import against_paper
from anisocert.evaluate.cells import accuracies, averages, best_accuracies, noise
from anisocert.evaluate.comparison import Comparison, superset
from anisocert.evaluate.intervals import wilson
from anisocert.evaluate.paper import published, published_superset
from anisocert.evaluate.results import SIZES, Results, Size, numbers
from anisocert.evaluate.sigmas import oracle
from anisocert.evaluate.table import Cell, Column, Table, short_down

RHO = 0.001
NOTES = ("kept", "shrunk", "inherited", "abstained")
COUNTED = 7  # radii a table


def tables_of(comparison: Comparison) -> list[Table]:
    """Every table that these runs can fill."""
    made = [
        summary(comparison), claims(comparison), supersets(comparison), memory_effect(comparison),
        runtime(comparison), against_paper(comparison),
    ]  # fmt: skip
    return [table for table in made if table is not None]


def summary(comparison: Comparison, radii: Sequence[float] | None = None, size: Size = "radius") -> Table:
    """Certified accuracy at several radii, means, medians and abstentions, with 95 % intervals: a line a run."""
    at = list(radii or table_radii(comparison, size))
    name = "radius" if size == "radius" else "proxy radius"
    columns = (
        Column("method"), Column(comparison.symbol), Column("memory"),
        *(Column(short_down(r), "share", f"% certified at {comparison.norm} {name}") for r in at),
        Column("median radius", "length"), Column("ACR", "length"), Column("ACR~", "length"),
        Column("abstains (%)", "share"),
    )  # fmt: skip
    rows, marks = [], []
    for one in comparison.stages():
        rows.append(_line(one, at, size))
        marks.append(one.stage)
    for family in comparison.families():
        if all(one.knows(size) for one in family):
            rows += _best_lines(family, at, size)
            marks += [family[0].stage] * 2
    return Table(
        f"{comparison.data}, {comparison.norm}: {len(comparison):,} inputs", columns, tuple(rows),
        _summary_caption(comparison, size), tuple(marks),
    )  # fmt: skip


def claims(comparison: Comparison, radii: Sequence[float] | None = None) -> Table | None:
    """Certified accuracy that holds for all these inputs at once, although every certificate may fail with alpha."""
    at = list(radii or table_radii(comparison))
    known = [one for one in comparison.stages() if one.alpha is not None]
    if not known:
        return None
    columns = (
        Column("method"), Column(comparison.symbol), Column("memory"), Column("α"),
        *(Column(short_down(r), "share", f"at least % at {comparison.norm} radius") for r in at),
    )  # fmt: skip
    rows = [
        (*_head(one), Cell(f"{one.alpha:g}"), *(Cell(float(share)) for share in one.claim(at, RHO))) for one in known
    ]
    return Table(
        f"What may be claimed of the {len(comparison):,} inputs together", columns, tuple(rows),
        f"α is the probability that the certificate of one input is wrong. These accuracies leave room for as many "
        f"wrong ones as may happen, and are right with probability {1 - RHO:g}, each by itself.",
        tuple(one.stage for one in known),
    )  # fmt: skip


def supersets(comparison: Comparison) -> Table | None:
    """How often a method's certificate is at least as large as every other's: a line a method and noise level."""
    rows, marks = [], []
    for stage, level, rivals in _rivals(comparison):
        sizes = [_largest(rivals, size) for size in SIZES]
        for one, *shares in zip(rivals, *sizes, strict=True):
            rows.append((Cell(one[0].label), Cell(level), Cell(stage), *map(Cell, shares)))
            marks.append(stage)
    if not rows:
        return None
    told = published_superset(comparison.data, comparison.norm, comparison.recipe)
    if told is not None:
        rows.append((Cell("anisotropic, ANCER paper"), Cell("best of all"), Cell("before"), *map(Cell, told)))
        marks.append("before")
    columns = (
        Column("method"), Column(comparison.symbol), Column("memory"),
        Column("radius", "share", "% with the largest"),
        Column("proxy radius", "share", "% with the largest"),
    )  # fmt: skip
    caption = (
        "Share of inputs on which a method's correct certificate is at least as large as that of every other method. "
        "Where the radius is, the region contains the others' balls. Ties count for all."
    )
    return Table("Whose certificate is the largest", columns, tuple(rows), caption, tuple(marks))


def memory_effect(comparison: Comparison) -> Table | None:
    """What a memory did to a run's answers: a line a run."""
    rows = []
    for entry in comparison.entries:
        if entry.after is None:
            continue
        told = Counter(note for note in entry.run.column("memory_note").tolist())
        before, after = entry.before, entry.after
        told_counts = (Cell(float(told[note])) for note in NOTES)
        means = (Cell(before.mean()), Cell(after.mean()))
        rows.append((Cell(before.label), noise(before), *told_counts, *means))
    if not rows:
        return None
    columns = (
        Column("method"), Column(comparison.symbol), *(Column(note, "count", "answers") for note in NOTES),
        *(Column(stage, "length", "ACR") for stage in ("before", "after")),
    )  # fmt: skip
    caption = (
        "kept: certified as proposed; shrunk: made room for earlier regions of other classes; inherited: lies in "
        "an earlier region and takes its class; abstained: no answer. Inputs arrive in order of their ids."
    )
    return Table("What the memory did", columns, tuple(rows), caption)


def runtime(comparison: Comparison) -> Table | None:
    """Seconds and votes an input: a line a run."""
    rows = []
    for entry in comparison.entries:
        seconds, votes = numbers(entry.run, "seconds"), numbers(entry.run, "votes")
        if np.isnan(seconds).all():
            continue
        rows.append(
            (
                Cell(entry.before.label), noise(entry.before), Cell(float(np.nanmean(seconds))),
                Cell(float(np.nanmedian(seconds))), Cell(float(np.nansum(seconds))),
                Cell(None if np.isnan(votes).all() else float(np.nanmean(votes))),
                Cell(str(entry.run.description.get("device") or "not recorded")),
            )
        )  # fmt: skip
    if not rows:
        return None
    columns = (
        Column("method"), Column(comparison.symbol), Column("mean (s)", "seconds"),
        Column("median (s)", "seconds"), Column("total (s)", "seconds"),
        Column("votes an input", "count"), Column("device"),
    )  # fmt: skip
    return Table("What it cost", columns, tuple(rows), "Seconds an input, choice of the noise and all votes included.")


def table_radii(comparison: Comparison, size: Size = "radius") -> tuple[float, ...]:
    """Sizes worth a column: the paper's where it has this data, else round numbers up to the largest certificates."""
    told = published(comparison.data, comparison.norm, comparison.recipe)
    if told is not None:
        return told.radii
    sizes = np.concatenate([entry.before.certified(size) for entry in comparison.entries if entry.before.knows(size)])
    return round_steps(float(np.quantile(sizes, 0.98)) if len(sizes) else 0.0)


def round_steps(top: float) -> tuple[float, ...]:
    """0 and six multiples of a round number, the last one near `top`."""
    if not top > 0:
        return (0.0,)
    power = 10 ** np.floor(np.log10(top / (COUNTED - 1)))
    step = min((power * unit for unit in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s * (COUNTED - 1) - top))
    return tuple(float(f"{i * step:.12g}") for i in range(COUNTED))


def _line(one: Results, at: Sequence[float], size: Size) -> tuple[Cell, ...]:
    none = wilson(round(one.abstention * len(one)), len(one))
    return (
        *_head(one), *accuracies(one, at, size), Cell(one.median() if one.knows("radius") else None),
        *averages([one]), Cell(one.abstention, float(none[0]), float(none[1])),
    )  # fmt: skip


def _best_lines(family: Sequence[Results], at: Sequence[float], size: Size) -> list[tuple[Cell, ...]]:
    """A method at its noise levels, by the two rules."""
    first, levels = family[0], f"best of {len(family)}"
    best = best_accuracies(family, at, size)
    line = list(_line(oracle(family, size), at, size))
    line[1], line[-3:-1] = Cell(levels), averages(family)
    return [(Cell(f"{first.label}, envelope"), Cell(levels), Cell(first.stage), *best, *[Cell(None)] * 4), tuple(line)]


def _head(one: Results) -> tuple[Cell, Cell, Cell]:
    return Cell(one.label), noise(one), Cell(one.stage)


def _rivals(comparison: Comparison) -> Iterator[tuple[str, str, list[list[Results]]]]:
    """(stage, noise level, competitors): runs of one level; and the methods, each with all of its levels."""
    stages = ["before"] + (["after"] if any(entry.after is not None for entry in comparison.entries) else [])
    for stage in stages:
        chosen = (
            [entry.before for entry in comparison.entries if not entry.again]
            if stage == "before"
            else [entry.binding for entry in comparison.entries]
        )
        for sigma in comparison.sigmas:
            same = [[one] for one in chosen if one.sigma == sigma]
            if len(same) > 1:
                yield stage, f"{sigma:g}", same
        wanted = {"not needed", stage}
        families = [family for family in comparison.families() if family[0].stage in wanted]
        if len(families) > 1:
            yield stage, "oracle", families


def _largest(rivals: Sequence[Sequence[Results]], size: Size) -> Sequence[float | None]:
    if not all(one.knows(size) for levels in rivals for one in levels):
        return [None] * len(rivals)
    return superset([oracle(levels, size) for levels in rivals], size)


def _summary_caption(comparison: Comparison, size: Size) -> str:
    parts = [
        "Intervals, where shown, are of 95 % confidence about inputs not seen (Wilson; bootstrap for means).",
        "ACR, ACR~: means of radius and proxy radius, 0 where the answer is wrong; a few huge regions can inflate "
        "them. Median radius: what half of the inputs reach.",
    ]
    if any(True for _ in comparison.families()):
        parts.append(
            "Envelope: at each radius the best noise level. Oracle: for each input the best level, chosen by the true "
            "label, as in the ANCER paper; no system can have it, and its certificates fail with the sum of the alphas."
        )
    if any(entry.unbound for entry in comparison.entries):
        parts.append(
            "Before the memory: each number is about that input's own classifier, not about one deployed system."
        )
    if any(entry.run.description.get("imported") for entry in comparison.entries):
        parts.append("Radii of imported logs are as the logs have them, which may have been rounded up.")
    if comparison.left_out:
        parts.append(f"{comparison.left_out:,} inputs that not all of the runs have are left out.")
    return " ".join(parts)
