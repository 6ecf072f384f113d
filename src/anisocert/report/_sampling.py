"""Which inputs are shown: the extremes, the problem cases, and some of the rest."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN
from anisocert.data import evenly
from anisocert.evaluate import Comparison
from anisocert.evaluate.results import numbers

if TYPE_CHECKING:
    from anisocert.runs import StoredRun


def chosen(comparison: Comparison, count: int) -> dict[int, list[str]]:
    """Which inputs to show, and what each is an example of; all of them if there are no more than `count`."""
    binding = comparison.headline.binding
    before = comparison.headline.before
    size = binding.certified("proxy_radius" if binding.knows("proxy_radius") else "radius")
    order = np.argsort(-size, kind="stable")
    certified = order[size[order] > 0]
    changed = (binding.prediction != before.prediction) | (binding.radius != before.radius)
    part = max(1, count // 6)
    groups = {
        "largest": certified[:part],
        "smallest": certified[::-1][:part],
        "shaped": _least_round(comparison)[: 2 * part],
        "wrong": np.flatnonzero(~binding.correct & (binding.prediction != ABSTAIN)),
        "abstained": np.flatnonzero(binding.prediction == ABSTAIN),
        "memory": np.flatnonzero(changed),
    }
    tags: dict[int, list[str]] = {}
    for name, places in groups.items():
        for place in places:
            tags.setdefault(int(place), []).append(name)
    keep: list[int] = []
    special = [name for name in ("wrong", "abstained", "memory") if len(groups[name])]
    for name in groups:
        limit = max(1, 2 * part // len(special)) if name in special else len(groups[name])
        keep += groups[name][evenly(len(groups[name]), limit)].tolist()
    keep = list(dict.fromkeys(keep))[:count]
    rest = np.setdiff1d(np.arange(len(binding)), keep)
    keep += rest[evenly(len(rest), count - len(keep))].tolist()
    return {int(binding.ids[place]): tags.get(place, []) for place in sorted(keep)}


def examples(comparison: Comparison, count: int) -> list[int]:
    """Those with a correct certificate whose regions are the least round, in order of id."""
    before, run = comparison.headline.before, comparison.headline.run
    ratio = dict(zip(run.column("idx").tolist(), _ratios(run).tolist(), strict=True))
    candidates = [number for number in before.ids[before.correct].tolist() if number in run.thetas]
    candidates.sort(key=lambda number: -ratio[number])
    return sorted(candidates[:count])


def _least_round(comparison: Comparison) -> NDArray[np.int64]:
    """Places of the certified inputs whose regions are not balls, the longest shapes first."""
    entry = comparison.headline
    ratio = np.where(entry.before.certified() > 0, _ratios(entry.run)[entry.shared], 1.0)
    order: NDArray[np.int64] = np.argsort(-ratio, kind="stable")
    return order[ratio[order] > 1.01]


def _ratios(run: "StoredRun") -> NDArray[np.float64]:
    """The largest over the smallest theta of each row."""
    return numbers(run, "theta_max") / numbers(run, "theta_min")
