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
    one = comparison.headline.binding
    before = comparison.headline.before
    size = one.certified("proxy_radius" if one.knows("proxy_radius") else "radius")
    order = np.argsort(-size, kind="stable")
    certified = order[size[order] > 0]
    changed = (one.prediction != before.prediction) | (one.radius != before.radius)
    part = max(1, count // 6)
    groups = {
        "largest": certified[:part],
        "smallest": certified[::-1][:part],
        "shaped": _least_round(comparison)[: 2 * part],
        "wrong": np.flatnonzero(~one.correct & (one.prediction != ABSTAIN)),
        "abstained": np.flatnonzero(one.prediction == ABSTAIN),
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
    others = np.setdiff1d(np.arange(len(one)), keep)
    keep += others[evenly(len(others), count - len(keep))].tolist()
    return {int(one.ids[place]): tags.get(place, []) for place in sorted(keep)}


def examples(comparison: Comparison, count: int) -> list[int]:
    """Inputs with a correct certificate, the least round regions first."""
    one, run = comparison.headline.before, comparison.headline.run
    ratio = dict(zip(run.column("idx").tolist(), _ratios(run).tolist(), strict=True))
    sure = [number for number in one.ids[one.correct].tolist() if number in run.thetas]
    sure.sort(key=lambda number: -ratio[number])
    return sorted(sure[:count])


def _least_round(comparison: Comparison) -> NDArray[np.int64]:
    """Places of the certified inputs whose regions are not balls, the longest shapes first."""
    run, one = comparison.headline.run, comparison.headline.before
    ratio = np.where(one.certified() > 0, _ratios(run)[np.isin(numbers(run, "idx"), one.ids)], 1.0)
    order: NDArray[np.int64] = np.argsort(-ratio, kind="stable")
    return order[ratio[order] > 1.01]


def _ratios(run: "StoredRun") -> NDArray[np.float64]:
    """The largest over the smallest theta of each row."""
    return numbers(run, "theta_max") / numbers(run, "theta_min")
