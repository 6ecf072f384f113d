"""Whose certificate is the largest."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anisocert.evaluate.comparison import Comparison
from anisocert.evaluate.paper import published_superset
from anisocert.evaluate.protection import NOBODY
from anisocert.evaluate.results import SIZES, Results, Size, aligned, number
from anisocert.evaluate.sigmas import oracle
from anisocert.evaluate.table import WHOM, Cell, Column, Table


def superset(results: Sequence[Results], size: Size = "radius", slack: float = 0.0) -> list[float]:
    """For each, how often its correct certificate is at least as large as those of all the others.

    Of the inputs that one of them certifies, a share; NaN where there is none: without a certificate, none is large.
    Around one input a region contains a ball exactly if its radius is at least the ball's, so that against balls
    this is the share of certificates that contain all others (ANCER, Definition 1). slack: the part of the largest one
    that a certificate may lack and still count.
    """
    sizes = np.array([rival.certified(size) for rival in aligned(results)])
    sizes = sizes[:, sizes.max(0) > 0]
    if not sizes.size:
        return [math.nan] * len(results)
    return [float(share) for share in (sizes >= (1 - slack) * sizes.max(0)).mean(1)]


def supersets(comparison: Comparison) -> Table | None:
    """How often a method's certificate is at least as large as every other's: a line per method and noise level."""
    rows, marks = [], []
    for stage, level, rivals in _rivals(comparison):
        sizes = [_largest(rivals, size) for size in SIZES]
        for rival, *shares in zip(rivals, *sizes, strict=True):
            whom = rival[0].protects if len(rival) == 1 else NOBODY  # of several levels the best, by the label
            rows.append((Cell(rival[0].label), Cell(level), Cell(stage), Cell(whom), *map(Cell, shares)))
            marks.append(stage)
    if not rows:
        return None
    paper = published_superset(comparison.data, comparison.norm, comparison.recipe)
    if paper is not None:
        rows.append(
            (Cell("anisotropic, ANCER paper"), Cell("best of all"), Cell("as printed"), Cell(NOBODY), *map(Cell, paper))
        )
        marks.append("before")
    columns = (
        Column("method"), Column(comparison.symbol), Column("memory"), Column(WHOM),
        Column("radius", "share", "% with the largest"),
        Column("proxy radius", "share", "% with the largest"),
    )  # fmt: skip
    caption = (
        "Share of the inputs that one of the methods certifies correctly, on which this one's certificate is at least "
        "as large as that of every other. "
        "Where the radius is, the region contains the others' balls. Ties count for all. Sizes are compared here, not "
        f"promises.{_unequal(comparison)}"
    )
    return Table("Whose certificate is the largest", columns, tuple(rows), caption, tuple(marks))


def _unequal(comparison: Comparison) -> str:
    """A sentence about plans that are not the same: the largest radius of a certificate is that of unanimous votes."""
    clauses = []
    for name, differ in (("n", "votes per input differ"), ("alpha", "alpha differs"), ("bound", "the bound differs")):
        runs = [entry.run for entry in comparison.entries if entry.run.said(name) is not None]
        values: set[Any] = {str(run.said(name)) if name == "bound" else number(run, name) for run in runs}
        if len(values) > 1:
            texts = (value if isinstance(value, str) else f"{value:,.12g}" for value in sorted(values))
            clauses.append(f"{differ} ({' and '.join(texts)})")
    sentence = ", ".join(clauses)
    return f" {sentence[0].upper()}{sentence[1:]}: so do the largest radii that each can certify." if clauses else ""


def _rivals(comparison: Comparison) -> Iterator[tuple[str, str, list[list[Results]]]]:
    """(stage, noise level, competitors): runs of one level; and the methods, each with all of its levels."""
    stages = ["before"] + (["after"] if any(entry.binding.stage == "after" for entry in comparison.entries) else [])
    for stage in stages:
        chosen = (
            [entry.before for entry in comparison.entries if not entry.again and entry.before.stage != "after"]
            if stage == "before"
            else [entry.binding for entry in comparison.entries]
        )
        for sigma in comparison.sigmas:
            same = [[results] for results in chosen if results.sigma == sigma]
            if len(same) > 1:
                yield stage, f"{sigma:g}", same
        wanted = {"not needed", stage}
        families = [family for family in comparison.families() if family[0].stage in wanted]
        if len(families) > 1:
            yield stage, "oracle", families


def _largest(rivals: Sequence[Sequence[Results]], size: Size) -> Sequence[float | None]:
    if not all(level.knows(size) for levels in rivals for level in levels):
        return [None] * len(rivals)
    return superset([oracle(levels, size) for levels in rivals], size)
