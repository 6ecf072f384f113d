"""A whole system, attacked by somebody who comes before it has seen the clean input.

With an empty memory nothing is promised yet, so the answer to a point is what the system proposes there: the class of
one certificate, with the noise chosen at that point. Noise chosen per input makes that another classifier at every
point, about which the certificate of the clean input says nothing. What such a system withstands is measured here.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anisocert.attack._clean import Clean, Inputs
from anisocert.attack._hunt import Hunt, Limit
from anisocert.attack._kept import Kept, Part, joined, key_of
from anisocert.attack.search import Search
from anisocert.attack.system import system_of
from anisocert.certificate import ABSTAIN
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.memory import Memory
from anisocert.optimize import TwoStep
from anisocert.rounding import FINE, round_numbers
from anisocert.runs import AttackedFirst, StoredRun
from anisocert.runs.attacked import LARGEST_RADIUS, MOST_RADII
from anisocert.runs.attacked_file import rows_hash

AT_ONCE = {"cuda": 64, "cpu": 8}  # inputs, after which what was found is kept
STRONG = Search(starts=4, steps=60, samples=64)
BALLS = 8  # of the default radii, besides 0
USEFUL = 0.9  # quantile of the certified radii, up to which radii are useful


@dataclass(frozen=True, eq=False)
class FirstAttack:
    """What was found, and the points.

    points: `m x *shape`, where an input was lost, at the smallest radius, else the most hostile one of the last ball;
    inside: `m x *shape`, the same in the regions. radius: `m`, certified by the run for the label, -1 without.
    """

    found: AttackedFirst
    points: NDArray[np.float32] = field(repr=False)
    inside: NDArray[np.float32] = field(repr=False)
    radius: NDArray[np.float64] = field(repr=False)

    @property
    def failed(self) -> bool:
        """Whether one classifier for all inputs contradicts its certificates more often than errors explain."""
        return self.found.failed


def attack_first(
    run: StoredRun,
    network: Network,
    inputs: Inputs,
    *,
    ids: Sequence[int] | None = None,
    radii: Sequence[float] | None = None,
    how: Search = STRONG,
    n: int = 10_000,
    keep: Path | None = None,
    on_done: Callable[[int], None] = lambda _: None,
    on_kept: Callable[[int], None] = lambda _: None,
) -> FirstAttack:
    """Attack the system that a run is of, behind an empty memory that is new for every question.

    inputs: gives the input of an example id. ids: of those to attack (default: all). radii: of the balls (default:
    `usual_radii`); 0, the clean input, is always among them. n: votes per question. keep: a file for the inputs done so
    far, from which the same attack by the same user goes on if this one is stopped; remove it once you have the result.
    on_done is called with how many more limits (a ball or a region of one input) were searched; there are
    inputs x (radii + 1). on_kept is called once with how many inputs were done before, if any.
    """
    ids = [int(row["idx"]) for row in run.rows] if ids is None else sorted(set(ids))
    if not ids:
        raise ArgumentError("expected at least one id, got none")
    grid = ascending(usual_radii(run) if radii is None else radii)
    if any(row["label"] is not None and row["label"] >= network.num_classes for row in map(run.row, ids)):
        raise ArgumentError(f"expected labels below {network.num_classes}, the network's classes, got others")
    if run.said("method") == TwoStep.name:
        raise ArgumentError(
            f"expected a run under noise that a search can follow, got {TwoStep.name}, whose noise is chosen anew for "
            "every vote"
        )
    system, kept, parts, before = system_of(run, network, Memory(), n), Kept(keep), list[Part](), 0
    group = AT_ONCE[network.device.type]
    for first in range(0, len(ids), group):
        clean = Clean.of(run, ids[first : first + group], inputs)
        key = key_of(run, network, clean, grid, how, n)
        if (part := kept.get(key, clean, len(grid))) is None:
            if before == first > 0:
                on_kept(before)
            part = _attacked(Hunt(system, clean, how, run.domain), grid, on_done)
            kept.add(key, part)
        else:
            before += len(clean)
            on_done(len(clean) * (len(grid) + 1))
        parts.append(part)
    if before == len(ids):
        on_kept(before)
    errors = joined(parts, "errors").tolist() if run.for_everyone else []
    found = AttackedFirst(
        radii=grid, ids=np.array(ids, np.int64), labels=joined(parts, "labels"), answers=joined(parts, "answers"),
        promised=joined(parts, "promised"), inside=joined(parts, "inside"), n=n, alpha=system.plan.alpha,
        questions=int(joined(parts, "questions").sum()), attempts=len(errors),
        expected=math.fsum(errors) if errors else None, seed=how.seed, starts=how.starts, steps=how.steps,
        samples=how.samples, model_hash=run.model_hash or network.hash, rows_hash=rows_hash(run.description),
    )  # fmt: skip
    return FirstAttack(found, joined(parts, "points"), joined(parts, "deepest"), joined(parts, "radius"))


def ascending(radii: Sequence[float]) -> NDArray[np.float64]:
    """Radii in order, with 0 before them; an error if one is so large that float32 would lose the input beside it."""
    if not all(0 <= radius < np.inf for radius in radii):
        raise ArgumentError(f"expected each radius finite and at least 0, got {list(radii)}")
    if any(radius > LARGEST_RADIUS for radius in radii):
        raise ArgumentError(
            f"expected each radius at most {LARGEST_RADIUS:g}, in units of the network's input, got {max(radii):g}: "
            "beside such a change float32 loses the input, and no search would tell anything"
        )
    grid: NDArray[np.float64] = np.unique([0.0, *radii])
    if len(grid) > MOST_RADII:
        raise ArgumentError(f"expected at most {MOST_RADII} radii, 0 included, got {len(grid)}")
    return grid


def usual_radii(run: StoredRun) -> list[float]:
    """Eight radii in equal steps, to a little beyond the radius that a tenth of the certified inputs exceeds.

    Without a certified input, up to twice the noise's scale.
    """
    answer, size = ("memory_prediction", "memory_radius") if run.bound_by_memory else ("prediction", "radius")
    right = run.column(answer) == run.column("label")
    certified = run.column(size)[right & (run.column(answer) != ABSTAIN)]
    top = float(np.quantile(certified, USEFUL)) if len(certified) else 0.0
    top = top or 2 * float(np.mean(run.configuration.smoothing().theta))
    step = next(number for number in round_numbers(top / BALLS, FINE) if number * BALLS > top)
    return [float(f"{step * i:.6g}") for i in range(1, BALLS + 1)]


def _attacked(hunt: Hunt, radii: NDArray[np.float64], on_done: Callable[[int], None]) -> Part:
    clean = hunt.clean
    answers, points = _balls(hunt, radii, on_done)
    inside, deepest = _regions(hunt, radii, answers, points)
    on_done(len(clean))
    # Of those that abstained too: the votes that may mislead also decide which inputs are certified.
    return Part(
        clean.labels, clean.promised, clean.radius, answers, inside, points, deepest,
        np.array([*clean.errors, *itertools.chain.from_iterable(hunt.errors)]), np.array([hunt.questions]),
    )  # fmt: skip


def _balls(
    hunt: Hunt, radii: NDArray[np.float64], on_done: Callable[[int], None]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(answers, points) of balls of each radius, the first of which is the clean input itself."""
    clean = hunt.clean
    answers, points = np.repeat(hunt.said[:, None], len(radii), 1), clean.x.copy()
    on_done(len(clean))
    for j in range(1, len(radii)):
        before, certified = answers[:, j - 1], clean.radius >= radii[j]
        # An abstention loses the input; where the run certifies it, another class would say more.
        places = np.flatnonzero((before == clean.labels) | ((before == ABSTAIN) & certified))
        if len(places):
            axes = np.full((len(places), clean.x[0].size), radii[j])
            now, here = hunt.search(Limit(places, axes, clean.labels[places], certified[places]))
            worse = _worse(before[places], now, clean.labels[places])
            answers[places[worse], j:] = now[worse, None]
            points[places[worse]] = here[worse]
        on_done(len(clean))
    return answers, points


def _regions(
    hunt: Hunt, radii: NDArray[np.float64], answers: NDArray[np.int64], points: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(answers, points) of the regions that the run promises, from those of the balls, which are the arguments.

    A region has what the balls inside it have shown, and is searched where that is no other class.
    """
    clean = hunt.clean
    has = clean.promised != ABSTAIN
    inside, deepest = np.where(has, hunt.said, ABSTAIN), clean.x.copy()
    for j in range(1, len(radii)):
        from_ball = (clean.radius >= radii[j]) & _worse(inside, answers[:, j], clean.promised)
        inside[from_ball], deepest[from_ball] = answers[from_ball, j], points[from_ball]
    places = np.flatnonzero(has & ((inside == clean.promised) | (inside == ABSTAIN)))
    if len(places):
        axes = np.stack([region.axes.ravel() for i in places if (region := clean.regions[i]) is not None])
        top = clean.promised[places]
        now, here = hunt.search(Limit(places, axes, top, np.ones(len(places), bool)))
        worse = _worse(inside[places], now, top)
        inside[places[worse]], deepest[places[worse]] = now[worse], here[worse]
    return inside, deepest


def _worse(before: NDArray[np.int64], now: NDArray[np.int64], top: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where an answer says no less than the one before: it was `top`, or an abstention that is now another class."""
    other = (now != top) & (now != ABSTAIN)
    worse: NDArray[np.bool_] = (before == top) | ((before == ABSTAIN) & other)
    return worse
