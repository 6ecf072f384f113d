"""What fewer votes, or the other bound, would have certified, from the vote shares of finished runs."""

from dataclasses import replace

import numpy as np

from anisocert.bounds import BOUNDS, Plan
from anisocert.certificate import ABSTAIN
from anisocert.evaluate import Cell, Column, Comparison, Entry, Table
from anisocert.evaluate.cells import accuracies, averages, noise
from anisocert.evaluate.results import Results, numbers
from levels import whom_of

VOTES = (1_000, 10_000, 100_000)


def plan_table(comparison: Comparison) -> Table | None:
    """Anisotropic: a line per noise level, n and bound; the same thetas, classes and shares of the votes throughout."""
    rows, lines = [], list[Results]()
    for entry in comparison.entries:
        if entry.before.label != "anisotropic" or np.isnan(numbers(entry.run, "theta_geomean")).any():
            continue
        for n in VOTES:
            for bound in BOUNDS:
                estimate = with_plan(entry, n, bound)
                lines.append(estimate)
                sizes = (Cell(estimate.median()), *averages([estimate]))
                rows.append((noise(estimate), Cell(float(n)), Cell(bound), *accuracies(estimate, [0.0]), *sizes))
    columns = (
        Column(comparison.symbol), Column("n", "count"), Column("bound"), Column("% at radius 0", "share"),
        Column("median", "length"), Column("ACR", "length"), Column("ACR~", "length"),
    )  # fmt: skip
    caption = (
        f"Before the memory ({whom_of(lines)}), estimated from the shares of the votes that were counted: same thetas, "
        "same classes. Inputs that abstained abstain here too, though the two-class bound may certify some of them."
    )
    return Table(f"Votes and bounds: anisotropic, {comparison.recipe}", columns, tuple(rows), caption) if rows else None


def with_plan(entry: Entry, n: int, bound: str) -> Results:
    """A run's answers as n votes of the same shares would give them under a bound."""
    run, plan = entry.run, Plan(n=n, bound=bound, alpha=entry.before.alpha or Plan().alpha)
    shared = np.isin(numbers(run, "idx"), entry.before.ids)
    top, second, votes, classes, smallest, middle = (
        numbers(run, name)[shared]
        for name in ("top_votes", "runner_up_votes", "votes", "num_classes", "theta_min", "theta_geomean")
    )
    p_a, p_b = plan.projected(top.astype(int), second.astype(int), votes.astype(int), int(classes[0]))
    gap = run.noise.gap(p_a, p_b)
    answers = np.where(gap > 0, entry.before.prediction, ABSTAIN)
    return replace(entry.before, prediction=answers, radius=gap * smallest, proxy_radius=gap * middle)
