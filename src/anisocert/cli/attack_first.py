"""`anisocert attack --first`: what a system withstands before it has seen the clean input, and how that is told."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from anisocert.attack import UNFINISHED, FirstAttack, Search
from anisocert.attack import attack_first as attack
from anisocert.bounds import upper
from anisocert.cli import keeping
from anisocert.cli.console import Console
from anisocert.cli.progress import Bar
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.evaluate import EVERYONE, OWN, Results, Withstood, percent, probability, results_of, short_down
from anisocert.evaluate.withstood import counted
from anisocert.runs import StoredRun
from anisocert.runs.attacked import LEVEL as FALSE_ALARM
from anisocert.runs.files import ATTACKED, WrongFileError, expect_own

LEVEL = 0.05  # probability with which a bound may miss


def expect_stronger(
    run: StoredRun, how: Search, n: int, *, radii: NDArray[np.float64], ids: Sequence[int], force: bool
) -> None:
    """An error, before the attack, unless its result may take the place of what is kept beside the run."""
    for name in (ATTACKED, UNFINISHED):
        expect_own(run.folder / name)
    try:
        kept = None if force else run.attacked
    except WrongFileError:  # of other rows, or damaged: nothing is lost with it
        return
    if kept is None:
        return
    left_out = set(kept.ids.tolist()) - set(ids)
    effort = {"n": n, "starts": how.starts, "steps": how.steps, "samples": how.samples}
    more = [f"{name} {getattr(kept, name):,}" for name, now in effort.items() if getattr(kept, name) > now]
    more += [f"radius {radius:g}" for radius in np.setdiff1d(kept.radii, radii)]
    more += [f"inputs that this one leaves out ({len(left_out):,})"] * bool(left_out)
    more += ["answers that contradict the run"] * kept.failed
    if more:
        raise ArgumentError(
            f"expected an attack no weaker than the one that {run.folder / ATTACKED} keeps, which has "
            f"{', '.join(more)}: add --no-save, or replace it with --force"
        )


def attack_first(
    run: StoredRun,
    network: Network,
    how: Search,
    n: int,
    *,
    radii: NDArray[np.float64],
    ids: Sequence[int],
    keep: Path | None,
) -> FirstAttack:
    """The attack, with a progress bar. keep: see `anisocert.attack.attack_first`."""
    console, total = Console(stderr=True), len(ids) * (len(radii) + 1)
    done = "nothing is kept; the same command begins anew" if keep is None else "the same command goes on where it was"
    with keeping(done), Bar(console, "attacking", "balls and regions", total) as bar:
        return attack(
            run, network, run.inputs(), ids=ids, radii=radii.tolist(), how=how, n=n, keep=keep,
            on_done=bar.advance,
            on_kept=lambda count: console.tell(
                f"going on from {count:,} of {len(ids):,} inputs, done before and kept in {keep}"
            ),
        )  # fmt: skip


def tell_first(found: FirstAttack, run: StoredRun, as_json: bool) -> None:
    """The result, with what the run certifies beside it."""
    promise = results_of(run, memory=run.bound_by_memory)
    *balls, regions = counted(found.found, found.radius)
    if as_json:
        print(json.dumps(_plain(found, run, promise, balls, regions), indent=2))
        return
    console, table = Console(), Table(box=None)
    names = (f"{promise.protects}, %", "right under attack, %", "95 % interval", "otherwise", "no answer")
    for name in (f"{promise.norm} radius", *names):
        table.add_column(name, justify="right")
    for ball in balls:
        table.add_row(
            short_down(ball.radius or 0.0, 6), percent(ball.certified_share), percent(ball.share),
            _interval(ball), f"{ball.otherwise} of {ball.certified}", str(ball.abstained),
        )  # fmt: skip
    console.print(table)
    for line in _lines(found, run, promise, balls, regions):
        console.tell(line)


def points_of(found: FirstAttack) -> dict[str, Any]:
    """The most hostile point of each input's balls and of its region, and the system's answers."""
    kept = {name: getattr(found.found, name) for name in ("ids", "labels", "radii", "answers", "promised", "inside")}
    return {**kept, "points": found.points, "inside_points": found.inside}


def _counts(outcome: Withstood) -> dict[str, Any]:
    """Of the certified: how many were answered with another class, and with none; a bound of the former's share."""
    counts = {"certified": outcome.certified, "otherwise": outcome.otherwise, "otherwise_at_most": _bound(outcome)}
    return counts | {"abstained": outcome.abstained}


def _bound(outcome: Withstood) -> float | None:
    """An upper confidence bound of the share of the certified that this attack makes be answered otherwise."""
    return float(upper(outcome.otherwise, outcome.certified, LEVEL)) if outcome.certified else None


def _plain(
    found: FirstAttack, run: StoredRun, promise: Results, balls: Sequence[Withstood], regions: Withstood
) -> dict[str, Any]:
    result = found.found
    return {
        "run": str(run.folder), "attacked": len(result), "questions": result.questions, "protects": promise.protects,
        "expected": result.expected, "failed": result.failed, "level": FALSE_ALARM, "n": result.n,
        "alpha": result.alpha, "domain": run.domain,
        "balls": [
            {"radius": ball.radius, "right": ball.right, "interval": ball.interval(), **_counts(ball)} for ball in balls
        ],
        "regions": _counts(regions),
        "results": [
            {"id": int(result.ids[i]), "label": int(result.labels[i]), "answers": result.answers[i].tolist(),
             "promised": int(result.promised[i]), "inside": int(result.inside[i])}
            for i in range(len(result))
        ],
    }  # fmt: skip


def _lines(
    found: FirstAttack, run: StoredRun, promise: Results, balls: Sequence[Withstood], regions: Withstood
) -> list[str]:
    candidates = [ball for ball in balls[1:] if ball.certified] or balls
    worst = max(candidates, key=lambda ball: (ball.otherwise, ball.certified - ball.right))
    lines = [
        "right under attack: no point of the ball was found that the system, with an empty memory, answers otherwise "
        "than with the label; otherwise: of those certified at the radius, how many were answered with another class; "
        "no answer: how many of them were made to abstain, and no more.",
        f"At radius {short_down(worst.radius or 0.0, 6)}, {percent(worst.certified_share)} % are {_verb(promise)}; a "
        f"stranger who comes first leaves {percent(worst.share)} % right, {_interval(worst)}; {worst.otherwise} of "
        f"{worst.certified} certified inputs were answered with another class{_at_most(worst)}.",
    ]
    if regions.certified:
        lines.append(
            f"Inside the regions that the run gives, {regions.otherwise} of {regions.certified} were answered with "
            f"another class{_at_most(regions)}, {regions.abstained} more with none."
        )
    if (domain := run.domain) is not None:
        lines.append(f"All points are valid inputs, in the run's domain: {domain[0]:g} to {domain[1]:g}.")
    expected, seen = found.found.expected, regions.otherwise
    if expected is None:
        return [
            *lines,
            f"{_why(promise)} What was found is a measurement of this attack: a stronger one may find more.",
        ]
    verdict = "which is more than errors explain: something is wrong" if found.failed else "which errors explain"
    return [
        *lines,
        f"One classifier answers all inputs: another class inside a region is an error, of the certificate or of the "
        f"answer. Their probabilities add up to {probability(expected)}; {seen or 'none'} happened"
        + (f", {verdict}." if seen else "."),
    ]


def _verb(promise: Results) -> str:
    return "certified, " + promise.protects if promise.protects == OWN else promise.protects


def _why(promise: Results) -> str:
    if promise.protects == OWN:
        return "Noise was chosen per input, so a neighbour has another classifier: no certificate is contradicted."
    if promise.protects == EVERYONE:
        return "No certificate is contradicted."
    return "The promise begins with the admission of the clean input, and the memory was empty: none is broken."


def _at_most(outcome: Withstood) -> str:
    """The upper confidence bound, in words."""
    bound = _bound(outcome)
    share = "" if bound is None else f"at most {percent(bound, upper=True)} % of all such by this attack"
    return f" ({share}, with confidence 95 %)" if share else ""


def _interval(outcome: Withstood) -> str:
    low, high = outcome.interval()
    return f"[{percent(low)}, {percent(high, upper=True)}]"
