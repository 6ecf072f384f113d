"""One system, certified for everyone, beside fixed noise at each of its levels and Dual Randomized Smoothing."""

from pathlib import Path

from anisocert.errors import ArgumentError
from anisocert.evaluate import EVERYONE, Cell, Column, Comparison, Table, compare
from anisocert.evaluate.cells import accuracies, medians
from anisocert.evaluate.table import short_down
from anisocert.runs import read_run
from codes import DUAL, RADII

FOLDER = "one-system"
LEVELS = ("0.5", "0.25")


def read_systems(results: Path) -> Comparison | None:
    """The cascade of experiments/codes.py, and the runs of fixed noise at its levels that it was given."""
    folders = [results / FOLDER / "cascade", *(results / f"strong-{level}" / "fixed" for level in LEVELS)]
    if not all((folder / "run.json").exists() for folder in folders):
        return None
    runs = [read_run(folder) for folder in folders]
    if len(counts := {run.said("n") for run in runs}) > 1:
        raise ArgumentError(f"expected as many votes in all runs of one table, got {counts} in {folders}")
    (comparison,) = compare(runs)
    return comparison


def one_system_table(comparison: Comparison | None) -> Table | None:
    """A line per system: certified accuracy by radius, and the median radius."""
    if comparison is None:
        return None
    levels = [entry.before for entry in comparison.entries]
    at = [*RADII[: len(DUAL)]]  # which was published, and beyond it what any of ours reaches
    at += [radius for radius in RADII[len(DUAL) :] if any(level.accuracy([radius])[0] > 0 for level in levels)]
    rows = [(Cell(_name(level.method, level.sigma)), *accuracies(level, at), medians(level)[0]) for level in levels]
    rows.append((Cell("Dual Randomized Smoothing, as published"), *(Cell(round(share / 100, 4)) for share in DUAL)))
    rows[-1] += (Cell(None),) * (len(at) + 1 - len(DUAL))
    shares = (Column(short_down(radius), "share", "% certified at l2 radius") for radius in at)
    columns = (Column("system"), *shares, Column("median", "length"))
    n = int(comparison.entries[0].run.plan.n)
    caption = (
        f"All {EVERYONE}: no memory, no order. ResNet18 with a 3x3 stem, 80 epochs, the last weights: consistency "
        f"regularisation of weight 2 at σ = 0.5, Cohen's recipe at 0.25; n = {n:,}. The networks and fixed noise are "
        "of `anisocert reproduce experiments/cifar10.toml --only '*strong*' --out OUT`, the cascade of `python "
        "experiments/codes.py --runs OUT/runs/strong-0.5/fixed,OUT/runs/strong-0.25/fixed --compile --out CASCADE`. "
        "The last line is that paper's own (arXiv 2512.01782), of its networks, votes and images, which are not these."
    )
    return Table(
        f"{comparison.data}: one system for all radii; {len(comparison):,} inputs", columns, tuple(rows), caption
    )


def _name(method: str, sigma: float | None) -> str:
    return "cascade of σ = 0.5 and 0.25" if method == "cascade" else f"fixed noise, σ = {sigma:g}"
