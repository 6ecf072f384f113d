"""Mean sizes, which the field reports, and how much of them a few large regions carry.

A mean may grow without limit by a handful of regions, or by inputs that are easy anyway; a median and a curve do not.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from anisocert.bounds import Plan
from anisocert.evaluate import ADMITTED, Cell, Column, Comparison, Results, Table
from anisocert.evaluate.cells import averages
from levels import ALGORITHMS, MEMORIES, UNBOUND, after, before, place

ROUNDING = 1e-6  # of a noise level in float32, in which noise is drawn


def mean_table(comparisons: Sequence[Comparison]) -> Table | None:
    """A line per recipe, noise level and method: means, what large regions carry of them, and what memories leave."""
    rows = []
    for comparison in comparisons:
        for sigma in comparison.sigmas:
            most = reachable(comparison, sigma)
            for name in ALGORITHMS:
                full = before(comparison, name, sigma)
                if full is None or most is None:
                    continue
                beyond = full.certified("radius") > most * (1 + ROUNDING)
                cut = replace(full, radius=full.radius.clip(max=most), proxy_radius=full.proxy_radius.clip(max=most))
                kept_by = [after(comparison, name, sigma, kept) for kept in MEMORIES]
                rows.append(
                    (
                        *place(comparison, f"{sigma:g}"), Cell(name), *averages([full]), _tenth(full), Cell(most),
                        *averages([cut]), Cell(float(beyond.mean())), _largest_class(full, beyond),
                        Cell(float(full.certified("radius").max())),
                        *(cell for later in kept_by for cell in _after(later)),
                    )
                )  # fmt: skip
    columns = (
        Column("recipe"), Column("noise"), Column("method"), Column("ACR", "length"), Column("ACR~", "length"),
        Column("% of ACR in the largest tenth", "share"), Column("fixed noise reaches", "length"),
        Column("ACR", "length", "cut there:"), Column("ACR~", "length", "cut there:"),
        Column("% beyond", "share"), Column("of one class (%)", "share"), Column("largest radius", "length"),
        *(Column(name, "length", f"after memory ({kept}):") for kept in MEMORIES for name in ("ACR", "ACR~")),
    )  # fmt: skip
    caption = (
        f"ACR, ACR~: means of radius and proxy radius, wrong answers as 0, {UNBOUND}; after it: {ADMITTED}. The "
        "largest tenth: of all inputs. Fixed noise reaches at most its σ times the gap of n votes for one class. Cut "
        "there: with every larger size counted as that one, so that no region counts for more than fixed noise could "
        "have given. Beyond: correct certificates with a larger radius, and the share of the commonest class among "
        "them."
    )
    return Table("Means, and what large regions carry", columns, tuple(rows), caption) if rows else None


def reachable(comparison: Comparison, sigma: float) -> float | None:
    """The largest radius that fixed noise of this level can certify with the runs' votes; None if they do not tell."""
    for entry in comparison.entries:
        n, classes = entry.run.said("n"), entry.run.said("num_classes")
        if entry.before.sigma == sigma and n is not None and classes is not None and entry.before.alpha is not None:
            p_a, p_b = Plan(n=int(n), alpha=entry.before.alpha).best_case(int(classes))
            return sigma * float(entry.run.noise.gap(p_a, p_b))
    return None


def _after(results: Results | None) -> list[Cell]:
    return [Cell(None)] * 2 if results is None else averages([results])


def _tenth(results: Results) -> Cell:
    """The share of all radii that those of the largest tenth of the inputs make up."""
    sizes = np.sort(results.certified("radius"))
    return Cell(float(sizes[-max(1, len(sizes) // 10) :].sum() / sizes.sum()) if sizes.any() else None)


def _largest_class(results: Results, beyond: "np.ndarray") -> Cell:
    return Cell(float(np.bincount(results.labels[beyond]).max() / beyond.sum()) if beyond.any() else None)
