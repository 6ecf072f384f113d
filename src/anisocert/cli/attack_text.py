"""What `anisocert attack` prints."""

import json
from statistics import median
from typing import Any

from rich.table import Table
from rich.text import Text

from anisocert.attack import Attack, Attacked, Changed, Point, SystemAttack
from anisocert.cli.console import Console
from anisocert.evaluate import ADMITTED, EVERYONE, OR_ABSTAINS, above, down, percent, probability, results_of
from anisocert.memory import shown
from anisocert.optimize import CODED
from anisocert.runs import StoredRun

SHOWN = 40  # certificates listed one by one; of more, only the broken ones


def tell(found: Attack, run: StoredRun, as_json: bool) -> None:
    """The result of an attack on certificates."""
    if as_json:
        document = {
            "run": str(run.folder), "attacked": len(found.results), "broken": len(found.broken),
            "expected": found.expected, "failed": found.failed, "level": found.level,
            "protects": results_of(run).protects,
            "results": [_plain(target) for target in found.results],
        }  # fmt: skip
        print(json.dumps(document, indent=2))
        return
    console = Console()
    listed = found.results if len(found.results) <= SHOWN else found.broken
    if listed:
        console.print(_table(listed, str(run.column("norm")[0])))
    for line in (*_lines(found), _whom(run)):
        console.tell(line)


def _table(results: tuple[Attacked, ...], norm: str) -> Table:
    table = Table(box=None)
    for name in ("id", "class", "radius", "share left", "next class", f"changes at {norm}", "gauge", ""):
        table.add_column(name, justify="left" if not name else "right")
    for target in results:
        change = target.change
        table.add_row(
            str(target.id), str(target.prediction), down(target.radius),
            f"{percent(target.inside.own / target.inside.votes)}%",
            f"{percent(target.inside.rival_votes / target.inside.votes, True)}%",
            above(change.length) if change else "not found",
            above(change.gauge) if change else "", Text("broken", "red") if target.broken else "",
        )  # fmt: skip
    return table


def _lines(found: Attack) -> list[str]:
    results, broken = found.results, len(found.broken)
    lines = [
        "share left: what the promised class keeps of the votes at the most hostile point found inside; changes at: "
        "distance of the nearest point found that is answered differently; gauge: the same, in units of the region."
    ]
    gauges = sorted(target.change.gauge for target in results if target.change)
    if gauges:
        lines.append(
            f"The answer was made to change for {len(gauges)} of {len(results)}, at a gauge of {above(gauges[0])} to "
            f"{above(gauges[-1])}, median {above(median(gauges))}: regions of these shapes, grown by as much, would "
            "be false. What lies between is the room that a better certificate may find."
        )
    lines.append(
        f"{len(results)} certificates attacked: {broken or 'none'} broken, where the alphas of all attempts lead "
        f"one to expect {probability(found.expected)} at most."
    )
    if broken:
        lines.append(
            "A broken certificate is a promise that does not hold: by the bad luck that its alpha allows, or because "
            "something is wrong with the run, with its network, or with this program."
        )
    return lines


def _whom(run: StoredRun) -> str:
    """What the attack was on."""
    protects = results_of(run).protects
    if protects == EVERYONE:
        coded = run.configuration.method in CODED
        noise = "whose noise is chosen from a codebook" if coded else "with one noise for all inputs"
        return f"What was attacked is {EVERYONE}: one classifier, {noise}."
    return (
        f"What was attacked is {protects}: each region under the noise chosen for its input. What a system with a "
        "memory promises is attacked with --memory."
    )


def tell_system(found: SystemAttack, memory: str, as_json: bool) -> None:
    """The result of an attack on a memory's answers."""
    if as_json:
        document = {
            "memory": shown(memory), "promises": found.promises, "questions": found.questions, "failed": found.failed,
            "conflicts": found.conflicts, "abstained": found.abstained,
            "changed": [_without_point(change) for change in found.changed],
        }  # fmt: skip
        print(json.dumps(document, indent=2))
        return
    console = Console()
    for change in found.changed[:SHOWN]:
        answer = (
            "no answer, or two" if change.answer is None else "no answer" if change.answer < 0 else f"{change.answer}"
        )
        console.tell(
            f"input {change.promise}: class {change.promised} was promised, {answer} given by {change.how} at gauge "
            f"{change.gauge:.6f}"
        )
    console.tell(
        f"{found.promises} promises attacked with {found.questions} questions: {len(found.changed)} answers changed, "
        f"{found.conflicts} pairs of regions may meet after all newcomers. {shown(memory)} itself was not written to."
    )
    if found.abstained is not None:
        console.tell(
            f"{found.abstained} questions got no answer, as the memory's policy allows. What it promises is "
            f"{OR_ABSTAINS}."
        )
    else:
        console.print(f"What was attacked is {ADMITTED}: an abstention would have counted as a change.")


def _plain(target: Attacked) -> dict[str, Any]:
    return {
        "id": target.id, "class": target.prediction, "radius": target.radius, "broken": target.broken,
        "inside": _without_point(target.inside), "change": target.change and _without_point(target.change),
    }  # fmt: skip


def _without_point(point: Point | Changed) -> dict[str, Any]:
    """All fields but the point itself, which has as many numbers as an input."""
    return {name: value for name, value in vars(point).items() if name != "x"}
