"""Curves and histograms as counts on grids, for the page to draw: no larger for 10,000 inputs than for ten."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.evaluate import (
    LEFT,
    NOBODY,
    Comparison,
    Entry,
    Results,
    added_alphas,
    envelope,
    oracle,
    probability,
    withstood,
)
from anisocert.evaluate.protection import AT_EACH
from anisocert.evaluate.results import SIZES, Size, numbers
from anisocert.rounding import round_numbers

POINTS, BINS = 400, 28


def curves(comparison: Comparison, points: int = POINTS) -> dict[str, Any]:
    """Certified accuracy against radius and proxy radius.

    sizes: for each, the grid's step and how many points; levels: for each noise level, envelope and oracle, what it
    is and the series, each with whom it protects, whether intervals are about it, the number of inputs that are
    certified at every point of the grid, and, where the run's system was attacked before it had seen the inputs, what
    that left, with 95 % intervals; first: the level to show first, that of the verdict.
    """
    grids = {size: _grid(comparison, size, points) for size in SIZES}
    levels = list(_levels(comparison))
    attacked = {entry.binding: _attacked(entry) for entry in comparison.entries}
    return {
        "norm": comparison.norm,
        "left": LEFT,
        "n": len(comparison),
        "sizes": grids,
        "levels": [
            {
                "name": name, "note": note,
                "series": [
                    _series(kind, content, grids) | {"attacked": attacked.get(content) if kind == "one" else None}
                    for kind, content in series
                ],
            }
            for name, note, series in levels
        ],
        "first": [name for name, _, _ in levels].index(_level_name(comparison, comparison.headline.before.sigma)),
    }  # fmt: skip


def _attacked(entry: Entry) -> dict[str, Any] | None:
    """Accuracy under the attack of a stranger who comes first, at each radius, with its interval; None if unknown."""
    lines = [(line.radius, line.share, *line.interval()) for line in withstood(entry) if line.radius is not None]
    return dict(zip(("radii", "shares", "low", "high"), zip(*lines, strict=True), strict=True)) if lines else None


def histograms(comparison: Comparison) -> list[dict[str, Any]]:
    """Gap, noise factor and ratio of largest to smallest noise, of each run that records them."""
    samples: dict[str, list[tuple[str, str, NDArray[np.float64]]]] = {name: [] for name in _HISTOGRAMS}
    for entry in comparison.entries:
        method, sigma = entry.before.method, entry.before.sigma
        gap, smallest, largest, typical = (
            numbers(entry.run, name)[entry.shared] for name in ("gap", "theta_min", "theta_max", "theta_geomean")
        )
        samples["gap"].append((entry.label, method, gap[gap > 0]))
        if method == "fixed":
            continue
        if sigma is not None:
            samples["smallest"].append((entry.label, method, smallest / sigma))
            if method != "isotropic":
                samples["typical"].append((entry.label, method, typical / sigma))
        if method != "isotropic":
            samples["ratio"].append((entry.label, method, largest / smallest))
    charts = []
    for name, (title, note) in _HISTOGRAMS.items():
        series = [(label, method, values[np.isfinite(values)]) for label, method, values in samples[name]]
        series = [sample for sample in series if len(sample[2])]
        if series:
            charts.append({"title": title, "note": note} | _binned(series))
    return charts


_HISTOGRAMS = {
    "gap": ("Gap r", "How clearly the class wins; the radius is the smallest noise times this. Certified inputs only."),
    "smallest": ("Smallest noise factor", "min θ over the level the search began with. 1: unchanged."),
    "typical": ("Typical noise factor", "Geometric mean of θ over the level the search began with."),
    "ratio": ("Shape: max θ / min θ", "1 is a ball; 2 is a region twice as long in its most tolerant direction."),
}  # fmt: skip


def _levels(comparison: Comparison) -> Iterator[tuple[str, str, list[tuple[str, Any]]]]:
    """(name, what it is, [(kind, results)]): each noise level with its runs, then all together by both rules."""
    levels: dict[float | None, list[Results]] = {}
    for results in comparison.stages():
        levels.setdefault(results.sigma, []).append(results)
    for sigma, group in sorted(levels.items(), key=lambda pair: (pair[0] is None, pair[0] or 0.0)):
        yield _level_name(comparison, sigma), "", [("one", results) for results in group]
    if families := list(comparison.families()):
        best = f"the best of up to {max(map(len, families))} noise levels"
        sums = [added_alphas(family) for family in families]
        totals = [total for total in sums if total is not None]
        risk = f" ({probability(max(totals))} here)" if len(totals) == len(sums) else ""
        risk = f"A given input's certificate is wrong with probability up to the sum of the levels' α{risk}."
        yield (
            "envelope", f"Envelope: at each radius {best}, chosen on these very inputs with their labels, so without "
            f"intervals. {risk}",
            [("envelope", family) for family in families],
        )  # fmt: skip
        yield (
            "oracle", f"Oracle: for each input {best}, chosen with its true label. No system can achieve this. {risk}",
            [("oracle", family) for family in families],
        )  # fmt: skip


def _level_name(comparison: Comparison, sigma: float | None) -> str:
    return "noise not recorded" if sigma is None else f"{comparison.symbol} = {sigma:g}"


def _series(kind: str, content: Any, grids: dict[Size, dict[str, Any]]) -> dict[str, Any]:
    members: list[Results] = [content] if kind == "one" else content
    first = members[0]
    protects = {"one": first.protects, "envelope": f"{first.protects}{AT_EACH}", "oracle": NOBODY}[kind]
    series: dict[str, Any] = {
        "label": first.label, "method": first.method, "stage": first.stage, "protects": protects,
        "interval": kind != "envelope",  # whose level is chosen on these very inputs
    }  # fmt: skip
    for size, grid in grids.items():
        if not all(member.knows(size) for member in members):
            series[size] = None
            continue
        at = np.array([float(f"{i * grid['step']:.12g}") for i in range(grid["points"])])
        if kind == "envelope":
            shares = envelope(members, at, size)
        else:
            shares = (oracle(members, size) if kind == "oracle" else first).accuracy(at, size)
        series[size] = np.rint(shares * len(first)).astype(int).tolist()
    return series


def _grid(comparison: Comparison, size: Size, most: int) -> dict[str, Any]:
    """Step and number of points (about `most`), up to the largest size unless a few are huge; how many lie beyond."""
    sizes = np.concatenate(
        [results.certified(size) for results in comparison.stages() if results.knows(size)] or [np.zeros(1)]
    )
    top = 1.04 * min(float(sizes.max()), 1.5 * float(np.quantile(sizes, 0.995)))
    if not top > 0:
        return {"step": 1.0, "points": 2, "beyond": 0}
    step = next(float(f"{number:.12g}") for number in round_numbers(top / most) if number >= top / most)
    points = int(np.ceil(top / step)) + 1
    return {"step": step, "points": points, "beyond": int((sizes > step * (points - 1)).sum())}


def _binned(series: Sequence[tuple[str, str, NDArray[np.float64]]]) -> dict[str, Any]:
    """Counts in shared bins; what lies beyond 1.5 times the 99 % quantile is counted in the last one."""
    everything = np.concatenate([values for _, _, values in series])
    low, high = float(everything.min()), min(float(everything.max()), 1.5 * float(np.quantile(everything, 0.99)))
    if not high > low:
        low, high = low * 0.9, low * 1.1 + 1e-9
    largest = max(len(values) for _, _, values in series)
    edges = np.linspace(low, high, int(np.clip(2 * np.sqrt(largest), 8, BINS)) + 1)
    return {
        "low": low, "high": high,
        "series": [
            {
                "label": label, "method": method, "median": float(np.median(values)),
                "counts": np.histogram(np.minimum(values, high), edges)[0].tolist(),
            }
            for label, method, values in series
        ],
    }  # fmt: skip
