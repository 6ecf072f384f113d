"""`anisocert attack --first`: what a system withstands before it has seen the clean input, and how that is told."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from anisocert.attack import FirstAttack, Search, ascending, usual_radii
from anisocert.attack import attack_first as attack
from anisocert.bounds import upper
from anisocert.cli.console import Console
from anisocert.cli.progress import progress
from anisocert.engine import Network
from anisocert.evaluate import EVERYONE, OWN, Results, clopper_pearson, percent, probability, results_of
from anisocert.runs import StoredRun

LEVEL = 0.05  # with which an interval or a bound may miss


def attack_first(
    run: StoredRun,
    network: Network,
    how: Search,
    n: int,
    *,
    radii: Sequence[float] | None,
    ids: Sequence[int],
    data: str | None,
) -> FirstAttack:
    """The attack, with a progress bar."""
    grid = ascending(radii or usual_radii(run)).tolist()
    total = len(ids) * (len(grid) + 1)
    with progress(Console(stderr=True), "attacking", total, "balls and regions") as advance:
        return attack(
            run, network, run.inputs(data), ids=ids, radii=grid, how=how, n=n,
            on_done=lambda count: advance(count, ""),
        )  # fmt: skip


def tell_first(found: FirstAttack, run: StoredRun, as_json: bool) -> None:
    """The result, with what the run certifies beside it."""
    promise = results_of(run, memory=run.has_memory)
    balls = [_ball(found, j) for j in range(len(found.found.radii))]
    if as_json:
        print(json.dumps(_plain(found, run, promise, balls), indent=2))
        return
    console, table = Console(), Table(box=None)
    names = (f"{promise.protects}, %", "right under attack, %", "95 % interval", "otherwise", "no answer")
    for name in (f"{promise.norm} radius", *names):
        table.add_column(name, justify="right")
    m = len(found.found)
    for one in balls:
        table.add_row(
            f"{one['radius']:g}", percent(one["certified"] / m), percent(one["right"] / m), _interval(one["interval"]),
            f"{one['otherwise']} of {one['certified']}", str(one["abstained"]),
        )  # fmt: skip
    console.print(table)
    for line in _lines(found, promise, balls):
        console.print(line, soft_wrap=True)


def save_points(found: FirstAttack, out: Path) -> None:
    """The most hostile point of each input's balls and of its region, and the system's answers."""
    one = found.found
    np.savez_compressed(
        out, ids=one.ids, labels=one.labels, radii=one.radii, answers=one.answers, points=found.points,
        promised=one.promised, inside=one.inside, inside_points=found.inside,
    )  # fmt: skip


def _ball(found: FirstAttack, index: int) -> dict[str, Any]:
    """What happened in the balls of one radius."""
    one, certified = found.found, found.certified(index)
    low, high = clopper_pearson(one.right(index), len(one), 1 - LEVEL)
    return {
        "radius": float(one.radii[index]), "right": one.right(index), "interval": (float(low), float(high)),
        **_counts(int(certified.sum()), one.otherwise(index, certified), one.abstained(index, certified)),
    }  # fmt: skip


def _counts(certified: int, otherwise: int, abstained: int) -> dict[str, Any]:
    """Of the certified: how many were answered with another class, and with none; a bound of the former's share."""
    bound = float(upper(otherwise, certified, LEVEL)) if certified else None
    return {"certified": certified, "otherwise": otherwise, "otherwise_at_most": bound, "abstained": abstained}


def _regions(found: FirstAttack) -> dict[str, Any]:
    one = found.found
    return _counts(int(one.has_region.sum()), one.otherwise_inside(), one.abstained_inside())


def _plain(found: FirstAttack, run: StoredRun, promise: Results, balls: list[dict[str, Any]]) -> dict[str, Any]:
    one = found.found
    return {
        "run": str(run.folder), "attacked": len(one), "questions": found.questions, "protects": promise.protects,
        "expected": found.expected, "failed": found.failed, "level": found.level, "n": one.n, "alpha": one.alpha,
        "balls": balls, "regions": _regions(found),
        "results": [
            {"id": int(one.ids[i]), "label": int(one.labels[i]), "answers": one.answers[i].tolist(),
             "promised": int(one.promised[i]), "inside": int(one.inside[i])}
            for i in range(len(one))
        ],
    }  # fmt: skip


def _lines(found: FirstAttack, promise: Results, balls: list[dict[str, Any]]) -> list[str]:
    m, regions = len(found.found), _regions(found)
    some = [ball for ball in balls[1:] if ball["certified"]] or balls
    told = max(some, key=lambda ball: (ball["otherwise"], abs(ball["certified"] - ball["right"])))
    lines = [
        "right under attack: no point of the ball was found that the system, with an empty memory, answers otherwise "
        "than with the label; otherwise: of those certified at the radius, how many were answered with another class; "
        "no answer: how many of them were made to abstain, and no more.",
        f"At radius {told['radius']:g}, {percent(told['certified'] / m)} % are {_verb(promise)}; a stranger who comes "
        f"first leaves {percent(told['right'] / m)} % right, {_interval(told['interval'])}; {told['otherwise']} of "
        f"{told['certified']} certified inputs were answered with another class{_at_most(told)}.",
    ]
    if regions["certified"]:
        lines.append(
            f"Inside the regions that the run gives, {regions['otherwise']} of {regions['certified']} were answered "
            f"with another class{_at_most(regions)}, {regions['abstained']} more with none."
        )
    if found.expected is None:
        return [
            *lines,
            f"{_why(promise)} What was found is a measurement of this attack: a stronger one may find more.",
        ]
    verdict = "which is more than errors explain: something is wrong" if found.failed else "which errors explain"
    seen = found.found.otherwise_inside() or "none"
    return [
        *lines,
        f"One classifier answers all inputs: another class inside a region is an error, of the certificate or of the "
        f"answer. Their probabilities add up to {probability(found.expected)}; {seen} happened"
        + (f", {verdict}." if found.found.otherwise_inside() else "."),
    ]


def _verb(promise: Results) -> str:
    return "certified, " + promise.protects if promise.protects == OWN else promise.protects


def _why(promise: Results) -> str:
    if promise.protects == OWN:
        return "Noise was chosen per input, so a neighbour has another classifier: no certificate is contradicted."
    if promise.protects == EVERYONE:
        return "No certificate is contradicted."
    return "The promise begins with the admission of the clean input, and the memory was empty: none is broken."


def _at_most(counts: dict[str, Any]) -> str:
    """The upper confidence bound, in words."""
    bound = counts["otherwise_at_most"]
    return "" if bound is None else f" (at most {percent(bound, upper=True)} % of all such, with confidence 95 %)"


def _interval(interval: tuple[float, float]) -> str:
    return f"[{percent(interval[0])}, {percent(interval[1], upper=True)}]"
