"""What a comparison says, in plain words: for each kind of system, the promise that it makes."""

from dataclasses import dataclass

import numpy as np

from anisocert.appearance import appearance
from anisocert.evaluate import (
    ADMITTED,
    EVERYONE,
    LEFT,
    OR_ABSTAINS,
    OWN,
    Comparison,
    Results,
    Withstood,
    down,
    nearest,
    percent,
    short_down,
    wilson,
    withstood,
)
from anisocert.report._stranger import contradicted, strangers_words
from anisocert.report._verdict_words import (
    cautions_words,
    certainty_words,
    nothing_words,
    rivals_words,
    scale_words,
    system_words,
)
from anisocert.rounding import FINE, round_numbers

LEADS = {
    EVERYONE: f", and the smoothed classifier gives the same answer after {{}}: {EVERYONE}.",
    OWN: " by the classifier with the noise chosen for them, which gives the same answer after {}. This is "
    f"{OWN}, and not a claim that a system is robust.",
    ADMITTED: f", and once they are admitted the system gives the same answer after {{}}: {ADMITTED}.",
    OR_ABSTAINS: f", and once they are admitted the system gives the same answer or none after {{}}: {OR_ABSTAINS}.",
}


@dataclass(frozen=True)
class Tile:
    """A number to see first."""

    value: str
    name: str
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """lead: the one sentence; points: the next ones; cautions: what the numbers do not say; alarms: before all this."""

    title: str
    lead: str
    points: tuple[str, ...]
    cautions: tuple[str, ...]
    tiles: tuple[Tile, ...]
    alarms: tuple[str, ...] = ()


def verdict(comparison: Comparison, dim: int | None = None, unit_range: bool = False) -> Verdict:
    """The verdict on a comparison's headline run. dim: values per input; unit_range: whether all are in [0, 1]."""
    entry, rivals = comparison.headline, len(comparison.contenders)
    results = entry.binding
    at = telling_radius(results)
    share = float(results.accuracy(at)[0])
    # The best of several is shown, and the interval must hold for whichever that is.
    low, high = (float(end) for end in wilson(round(share * len(results)), len(results), 1 - 0.05 / rivals))
    attacked = nearest(withstood(entry), at)
    best_of = f", best of {rivals} runs" if rivals > 1 else ""
    title = f"{comparison.norm}: {appearance(results.method, results.label).words}{best_of}"
    tiles = (
        Tile(f"{percent(results.accuracy(0)[0])} %", results.answered, f"of {len(results):,} inputs"),
        Tile(
            f"{percent(share)} %",
            f"at radius {at:g}, {results.protects}",
            "of inputs that were trained on"
            if entry.seen
            else f"95 % confidence {percent(low)} to {percent(high, True)} % about {entry.others}",
        ),
        Tile(
            down(results.median()),
            f"median radius, {results.protects}",
            f"half of the inputs reach it, in {comparison.norm}",
        ),
        Tile(f"{percent(results.abstention, True)} %", "without an answer", "abstentions"),
        *([_left(attacked, 1 - 0.05 / rivals, entry.others)] if attacked is not None else []),
    )
    cautions = tuple(cautions_words(comparison, entry, at))
    alarms = tuple(filter(None, map(contradicted, comparison.entries)))
    if at == 0:
        return Verdict(title, nothing_words(entry), (), cautions, tiles, alarms)
    change = f"every change of {comparison.norm} length up to {at:g}"
    lead = (
        f"{percent(share)} % of the {len(results):,} inputs are {results.answered}"
        f"{LEADS[results.protects].format(change)}"
    )
    points = [
        strangers_words(entry, at, 1 - 0.05 / rivals), scale_words(comparison.norm, at, dim, unit_range),
        rivals_words(comparison, entry), certainty_words(comparison, results, at), system_words(results),
    ]  # fmt: skip
    return Verdict(title, lead, tuple(point for point in points if point), cautions, tiles, alarms)


def telling_radius(one: Results) -> float:
    """A round radius that about half of the inputs reach, or a quarter, or any; 0 if none is certified."""
    sizes = one.certified()
    for share in (0.5, 0.75, 0.95, 1.0):
        size = float(np.quantile(sizes, share, method="lower"))
        if size > 0:
            return max(float(f"{number:.3g}") for number in round_numbers(size, FINE) if number <= size)
    return 0.0


def _left(attacked: Withstood, confidence: float, others: str) -> Tile:
    low, high = attacked.interval(confidence)
    return Tile(
        f"{percent(attacked.share)} %",
        f"at radius {short_down(attacked.radius or 0.0, 6)}, {LEFT}",
        f"of {attacked.inputs:,} inputs; 95 % confidence {percent(low)} to {percent(high, True)} % about {others}, "
        "under this attack",
    )
