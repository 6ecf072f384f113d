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
        said = {
            "run": str(run.folder), "attacked": len(found.results), "broken": len(found.broken),
            "expected": found.expected, "failed": found.failed, "level": found.level,
            "protects": results_of(run).protects,
            "results": [_plain(one) for one in found.results],
        }  # fmt: skip
        print(json.dumps(said, indent=2))
        return
    console = Console()
    shown = found.results if len(found.results) <= SHOWN else found.broken
    if shown:
        console.print(_table(shown, str(run.column("norm")[0])))
    for line in (*_lines(found), _whom(run)):
        console.tell(line)


def _table(results: tuple[Attacked, ...], norm: str) -> Table:
    table = Table(box=None)
    for name in ("id", "class", "radius", "share left", "next class", f"changes at {norm}", "gauge", ""):
        table.add_column(name, justify="left" if not name else "right")
    for one in results:
        change = one.change
        table.add_row(
            str(one.id), str(one.prediction), down(one.radius), f"{percent(one.inside.own / one.inside.votes)}%",
            f"{percent(one.inside.rival_votes / one.inside.votes, True)}%",
            above(change.length) if change else "not found",
            above(change.gauge) if change else "", Text("broken", "red") if one.broken else "",
        )  # fmt: skip
    return table


def _lines(found: Attack) -> list[str]:
    results, broken = found.results, len(found.broken)
    lines = [
        "share left: what the promised class keeps of the votes at the most hostile point found inside; changes at: "
        "distance of the nearest point found that is answered differently; gauge: the same, in units of the region."
    ]
    gauges = sorted(one.change.gauge for one in results if one.change)
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
        said = {
            "memory": shown(memory), "promises": found.promises, "questions": found.questions, "failed": found.failed,
            "conflicts": found.conflicts, "abstained": found.abstained,
            "changed": [_without_point(one) for one in found.changed],
        }  # fmt: skip
        print(json.dumps(said, indent=2))
        return
    console = Console()
    for one in found.changed[:SHOWN]:
        answer = "no answer, or two" if one.answer is None else "no answer" if one.answer < 0 else f"{one.answer}"
        console.tell(
            f"input {one.promise}: class {one.promised} was promised, {answer} given by {one.how} at gauge "
            f"{one.gauge:.6f}"
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


def _plain(one: Attacked) -> dict[str, Any]:
    return {
        "id": one.id, "class": one.prediction, "radius": one.radius, "broken": one.broken,
        "inside": _without_point(one.inside), "change": one.change and _without_point(one.change),
    }  # fmt: skip


def _without_point(found: Point | Changed) -> dict[str, Any]:
    """All fields but the point itself, which has as many numbers as an input."""
    return {name: value for name, value in vars(found).items() if name != "x"}
