"""What is said of all networks, counted: on how many it holds, and where it holds least."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from anisocert.evaluate import Cell, Column, Comparison, Results, Table, superset, times
from anisocert.evaluate.metrics import certified_accuracy, median_certified_radius
from anisocert.evaluate.protection import ADMITTED
from anisocert.evaluate.results import Size, aligned
from anisocert.evaluate.table import percent
from gains import TIE
from levels import MEMORIES, OURS, THEIR_START, THEIRS, UNBOUND, after, before, place, their_steps
from means import reachable

Stage = Callable[[Comparison, str, float], Results | None]  # of a method at a noise level; None where it was not run
TENTH = 0.1
STAGES: tuple[Stage, ...] = (before, *(partial(after, kept=kept) for kept in MEMORIES))
Measure = Callable[[Sequence[Results], float], float]  # of some methods, and the radius that fixed noise can reach


@dataclass(frozen=True)
class Claim:
    """words: what is claimed; methods: those it is about; it holds where `measure` of them is `least` or more."""

    words: str
    methods: tuple[str, ...]
    measure: Measure
    least: float
    percent: bool = False

    def holds(self, value: float) -> bool:
        """Of a ratio, only if it is above 1."""
        return value >= self.least if self.percent else value > self.least

    def told(self, value: float) -> str:
        """A value as text, rounded down; a share but for what subtracting two of them left in its last digits."""
        return f"{percent(round(value, 9))} %" if self.percent else times(value)


def _ratio(size: Size, statistic: Callable[[Results, Size], float], cut: bool = False) -> Measure:
    """Of one method to another, in means or medians."""

    def measure(results: Sequence[Results], most: float) -> float:
        kept = [replace(run, **{size: getattr(run, size).clip(max=most)}) if cut else run for run in results]
        one, other = (statistic(run, size) for run in kept)
        return one / other if other > 0 else np.inf if one > 0 else 1.0

    return measure


def _mean(results: Results, size: Size) -> float:
    return float(results.certified(size).mean())


def _median(results: Results, size: Size) -> float:
    return median_certified_radius(getattr(results, size), results.correct)


def _points(results: Sequence[Results], _: float) -> float:
    """Certified accuracy at radius 0, one method's less the other's."""
    one, other = (float(run.correct.mean()) for run in results)
    return one - other


def _curve(size: Size, share: float = 0.0) -> Measure:
    """The same at the size where the difference is least, among those that such a share reaches by either method; NaN
    where it reaches none.
    """

    def measure(results: Sequence[Results], _: float) -> float:
        at = np.array([0.0, *results[1].certified(size)])  # between two of these the other's curve does not fall
        one, other = (certified_accuracy(run.certified(size), run.correct, at) for run in results)
        differences = (one - other)[np.maximum(one, other) >= share]
        return float(differences.min()) if differences.size else np.nan

    return measure


def _largest(size: Size) -> Measure:
    """How often, where any method certifies, the first one's certificate is, up to TIE, no smaller than the others'."""
    return lambda results, _: superset(results, size, TIE)[0]


CLAIMS = (
    Claim("published isotropic / fixed: ACR above 1", (THEIR_START, "fixed"), _ratio("radius", _mean), 1),
    Claim("published ANCER / its isotropic: ACR above 1", (THEIRS, THEIR_START), _ratio("radius", _mean), 1),
    Claim("published ANCER / its isotropic: ACR~ above 1", (THEIRS, THEIR_START), _ratio("proxy_radius", _mean), 1),
    Claim("fixed − average theta: % at radius 0, not below 0", ("fixed", "average"), _points, 0, True),
    Claim("ours − fixed: % at radius 0, not below 0", (OURS, "fixed"), _points, 0, True),
    Claim("ours − fixed: % at every radius, not below 0", (OURS, "fixed"), _curve("radius"), 0, True),
    Claim("ours no smaller than fixed and isotropic: 99 % of the balls", (OURS, "fixed", "isotropic"),
          _largest("radius"), 0.99, True),
    Claim("ours no smaller than fixed and isotropic: 99 % of the volumes", (OURS, "fixed", "isotropic"),
          _largest("proxy_radius"), 0.99, True),
    Claim("ours − published: % at every radius, not below 0", (OURS, THEIRS), _curve("radius"), 0, True),
    Claim("ours − published: % at every radius that a tenth reaches, not below 0", (OURS, THEIRS),
          _curve("radius", TENTH), 0, True),
    Claim("ours − published: % at every proxy radius, not below 0", (OURS, THEIRS), _curve("proxy_radius"), 0, True),
    Claim("ours − published: % at every proxy radius that a tenth reaches, not below 0", (OURS, THEIRS),
          _curve("proxy_radius", TENTH), 0, True),
    Claim("ours / published: median above 1", (OURS, THEIRS), _ratio("radius", _median), 1),
    Claim("ours / published: median~ above 1", (OURS, THEIRS), _ratio("proxy_radius", _median), 1),
    Claim("ours / published: ACR above 1", (OURS, THEIRS), _ratio("radius", _mean), 1),
    Claim("ours / published: ACR~ above 1", (OURS, THEIRS), _ratio("proxy_radius", _mean), 1),
    Claim("ours / published: ACR, cut, above 1", (OURS, THEIRS), _ratio("radius", _mean, cut=True), 1),
    Claim("ours / published: ACR~, cut, above 1", (OURS, THEIRS), _ratio("proxy_radius", _mean, cut=True), 1),
)  # fmt: skip


def claim_table(comparisons: Sequence[Comparison]) -> Table | None:
    """A line per claim: before the memory and after each kind, on how many networks it holds, and where least."""
    rows = []
    for claim in CLAIMS:
        cells = [cell for stage in STAGES for cell in _counted(claim, stage, comparisons)]
        if any(cell.value is not None for cell in cells):
            rows.append((Cell(claim.words), *cells))
    stages = ("before memory:", *(f"after ({kept}):" for kept in MEMORIES))
    columns = (Column("claim"), *(Column(name, "text", stage) for stage in stages for name in ("holds on", "least")))
    caption = (
        "Holds on: so many of the networks on which all methods of the claim were run. Least: the smallest value, and "
        f"where it is. Values are {UNBOUND}; after it: {ADMITTED}. Every radius: the least difference of two curves. A "
        f"tenth: of the inputs, by either method. No smaller: up to {100 * TIE:g} %. Cut: each size counted as no more "
        f"than fixed noise can reach. {their_steps(comparisons)}"
    )
    return Table("What holds, and where it holds least", columns, tuple(rows), caption) if rows else None


def _counted(claim: Claim, stage: Stage, comparisons: Sequence[Comparison]) -> tuple[Cell, Cell]:
    """On how many networks it holds at one stage, and its least value with the network that has it."""
    measures = {}
    for comparison in comparisons:
        for sigma in comparison.sigmas:
            results = [run for name in claim.methods if (run := stage(comparison, name, sigma)) is not None]
            most = reachable(comparison, sigma)
            if len(results) == len(claim.methods) and most is not None:
                where = " ".join(str(cell.value) for cell in place(comparison, f"{sigma:g}"))
                measures[where] = claim.measure(aligned(results), most)
    measures = {where: value for where, value in measures.items() if not np.isnan(value)}
    if not measures:
        return Cell(None), Cell(None)
    where = min(measures, key=lambda network: measures[network])
    return (
        Cell(f"{sum(map(claim.holds, measures.values()))} of {len(measures)}"),
        Cell(f"{claim.told(measures[where])} ({where})"),
    )
