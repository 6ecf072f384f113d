"""How much of the means a few large regions carry: the part beyond what fixed noise can reach at all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from anisocert.bounds import Plan
from anisocert.evaluate import Cell, Column, Comparison, Results, Table
from anisocert.evaluate.cells import averages
from levels import ALGORITHMS, UNBOUND, before, place

ROUNDING = 1e-6  # of a noise level in float32, in which noise is drawn


def tail_table(comparisons: Sequence[Comparison]) -> Table | None:
    """A line per recipe, noise level and method: inputs beyond fixed noise's largest radius, and means cut there."""
    rows = []
    for comparison in comparisons:
        for sigma in comparison.sigmas:
            most = reachable(comparison, sigma)
            for name in ALGORITHMS:
                one = before(comparison, name, sigma)
                if one is None or most is None:
                    continue
                beyond = one.certified("radius") > most * (1 + ROUNDING)
                cut = replace(one, radius=one.radius.clip(max=most), proxy_radius=one.proxy_radius.clip(max=most))
                rows.append(
                    (
                        *place(comparison, f"{sigma:g}"), Cell(name), Cell(most), Cell(float(beyond.mean())),
                        _largest_class(one, beyond), Cell(float(one.certified("radius").max())), _tenth(one),
                        *averages([one]), *averages([cut]),
                    )
                )  # fmt: skip
    columns = (
        Column("recipe"), Column("noise"), Column("method"), Column("fixed noise reaches", "length"),
        Column("% beyond", "share"), Column("of one class (%)", "share"), Column("largest radius", "length"),
        Column("% of ACR in the largest tenth", "share"), Column("ACR", "length"), Column("ACR~", "length"),
        Column("ACR", "length", "cut there:"), Column("ACR~", "length", "cut there:"),
    )  # fmt: skip
    caption = (
        "Fixed noise reaches at most its σ times the gap of n votes for one class. Beyond: correct certificates with a "
        "larger radius, and the share of the commonest class among them. The largest tenth: of all inputs. Cut there: "
        "the means with every larger size counted as that one, so that no region counts for more than fixed noise "
        f"could have given. All {UNBOUND}."
    )
    return Table("What large regions carry", columns, tuple(rows), caption) if rows else None


def reachable(comparison: Comparison, sigma: float) -> float | None:
    """The largest radius that fixed noise of this level can certify with the runs' votes; None if they do not tell."""
    for entry in comparison.entries:
        n, classes = entry.run.said("n"), entry.run.said("num_classes")
        if entry.before.sigma == sigma and n is not None and classes is not None and entry.before.alpha is not None:
            p_a, p_b = Plan(n=int(n), alpha=entry.before.alpha).best_case(int(classes))
            return sigma * float(entry.run.noise.gap(p_a, p_b))
    return None


def _tenth(one: Results) -> Cell:
    """The share of all radii that those of the largest tenth of the inputs make up."""
    sizes = np.sort(one.certified("radius"))
    return Cell(float(sizes[-max(1, len(sizes) // 10) :].sum() / sizes.sum()) if sizes.any() else None)


def _largest_class(one: Results, beyond: "np.ndarray") -> Cell:
    return Cell(float(np.bincount(one.labels[beyond]).max() / beyond.sum()) if beyond.any() else None)
