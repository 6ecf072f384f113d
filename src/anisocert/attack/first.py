"""A whole system, attacked by somebody who comes before it has seen the clean input.

With an empty memory nothing is promised yet, so the answer to a point is what the system proposes there: the class of
one certificate, with the noise chosen at that point. Noise chosen per input makes that another classifier at every
point, about which the certificate of the clean input says nothing. What such a system withstands is measured here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anisocert.attack._clean import Clean, Inputs
from anisocert.attack._errors import explained
from anisocert.attack._hunt import Hunt, Limit
from anisocert.attack.attacking import LEVEL
from anisocert.attack.search import Search
from anisocert.attack.system import system_of
from anisocert.certificate import ABSTAIN
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.memory import Memory
from anisocert.optimize import SAME_FOR_ALL
from anisocert.runs import AttackedFirst, StoredRun
from anisocert.runs.attacked import MOST_RADII, rows_hash
from anisocert.system import System

AT_ONCE = 64  # inputs
STRONG = Search(starts=4, steps=60, samples=64)
NICE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
BALLS = 8  # of the default radii, besides 0
USEFUL = 0.9  # quantile of the certified radii, up to which radii are useful


@dataclass(frozen=True, eq=False)
class FirstAttack:
    """What was found, and the points.

    points: `m x *shape`, where an input was lost, at the smallest radius, else the most hostile one of the last ball;
    inside: `m x *shape`, the same in the regions. questions: how many the system was asked. radius: `m`, certified by
    the run for the label, -1 without. errors: the probabilities of the errors that may explain an answer with another
    class inside a region; None where noise is chosen per input, as then such an answer is no error.
    """

    found: AttackedFirst
    points: NDArray[np.float32] = field(repr=False)
    inside: NDArray[np.float32] = field(repr=False)
    radius: NDArray[np.float64] = field(repr=False)
    questions: int
    errors: tuple[float, ...] | None = field(repr=False)
    level: float

    @property
    def expected(self) -> float | None:
        """The most inputs answered with another class that errors lead one to expect; None: errors play no part."""
        return None if self.errors is None else sum(self.errors)

    @property
    def failed(self) -> bool:
        """Whether one classifier for all inputs contradicts its certificates more often than errors explain."""
        return self.errors is not None and not explained(self.found.otherwise_inside(), self.errors, self.level)

    def certified(self, index: int) -> NDArray[np.bool_]:
        """Which inputs the run certifies at the radius at `index`, with their label: `m`."""
        enough: NDArray[np.bool_] = self.radius >= self.found.radii[index]
        return enough


def attack_first(
    run: StoredRun,
    network: Network,
    inputs: Inputs,
    *,
    ids: Sequence[int] | None = None,
    radii: Sequence[float] | None = None,
    how: Search = STRONG,
    n: int = 10_000,
    on_done: Callable[[int], None] = lambda _: None,
) -> FirstAttack:
    """Attack the system that a run is of, behind an empty memory that is new for every question.

    inputs: gives the input of an example id. ids: of those to attack (default: all). radii: of the balls (default:
    `usual_radii`); 0, the clean input, is always among them. n: votes per question. on_done is called with how many
    more limits (a ball or a region of one input) were searched; there are inputs x (radii + 1).
    """
    ids = [int(row["idx"]) for row in run.rows] if ids is None else sorted(set(ids))
    if not ids:
        raise ArgumentError("expected at least one id, got none")
    grid = ascending(usual_radii(run) if radii is None else radii)
    if any(row["label"] is not None and row["label"] >= network.num_classes for row in map(run.row, ids)):
        raise ArgumentError(f"expected labels below {network.num_classes}, the network's classes, got others")
    system, parts = system_of(run, network, Memory(), n), list[_Part]()
    for first in range(0, len(ids), AT_ONCE):
        parts.append(_attacked(system, Clean.of(run, ids[first : first + AT_ONCE], inputs), grid, how, on_done))
    cleans = [part.hunt.clean for part in parts]
    found = AttackedFirst(
        radii=grid, ids=np.array(ids, np.int64), labels=np.concatenate([one.labels for one in cleans]),
        answers=np.concatenate([part.answers for part in parts]),
        promised=np.concatenate([one.promised for one in cleans]),
        inside=np.concatenate([part.inside for part in parts]), n=n, alpha=system.plan.alpha, seed=how.seed,
        starts=how.starts, steps=how.steps, samples=how.samples, model_hash=run.model_hash or network.hash,
        rows_hash=rows_hash(run.description),
    )  # fmt: skip
    errors = None
    if str(run.said("method")) in SAME_FOR_ALL and not run.has_memory:
        own = np.concatenate([one.errors for one in cleans])[found.has_region].tolist()
        errors = (*own, *(one for part in parts for asked in part.hunt.errors for one in asked))
    return FirstAttack(
        found, np.concatenate([part.points for part in parts]), np.concatenate([part.deepest for part in parts]),
        np.concatenate([one.radius for one in cleans]), sum(part.hunt.questions for part in parts), errors, LEVEL,
    )  # fmt: skip


def ascending(radii: Sequence[float]) -> NDArray[np.float64]:
    """Radii in order, with 0 before them."""
    if not all(0 <= radius < np.inf for radius in radii):
        raise ArgumentError(f"expected each radius finite and at least 0, got {list(radii)}")
    found: NDArray[np.float64] = np.unique([0.0, *radii])
    if len(found) > MOST_RADII:
        raise ArgumentError(f"expected at most {MOST_RADII} radii, 0 included, got {len(found)}")
    return found


def usual_radii(run: StoredRun) -> list[float]:
    """Eight radii in equal steps, to a little beyond the radius that a tenth of the certified inputs exceeds.

    Without a certified input, up to twice the noise's scale.
    """
    answer, size = ("memory_prediction", "memory_radius") if run.has_memory else ("prediction", "radius")
    right = run.column(answer) == run.column("label")
    known = run.column(size)[right & (run.column(answer) != ABSTAIN)]
    top = float(np.quantile(known, USEFUL)) if len(known) else 0.0
    top = top or 2 * float(np.mean(run.configuration.smoothing().theta))
    power = 10.0 ** np.floor(np.log10(top / BALLS))
    step = next(nice * power for nice in NICE if nice * power * BALLS > top)
    return [float(f"{step * i:.6g}") for i in range(1, BALLS + 1)]


@dataclass(eq=False)
class _Part:
    """A group of inputs under attack. points: see FirstAttack; deepest: its `inside`."""

    hunt: Hunt
    answers: NDArray[np.int64]
    inside: NDArray[np.int64]
    points: NDArray[np.float32]
    deepest: NDArray[np.float32]


def _attacked(
    system: System, clean: Clean, radii: NDArray[np.float64], how: Search, on_done: Callable[[int], None]
) -> _Part:
    hunt, m = Hunt(system, clean, how), len(clean)
    answers = np.repeat(hunt.said[:, None], len(radii), 1)
    part = _Part(hunt, answers, np.full(m, ABSTAIN, np.int64), clean.x.copy(), clean.x.copy())
    on_done(m)
    for j in range(1, len(radii)):
        before, certified = answers[:, j - 1], clean.radius >= radii[j]
        answers[:, j:] = before[:, None]
        # An abstention loses the input; where the run certifies it, another class would say more.
        places = np.flatnonzero((before == clean.labels) | ((before == ABSTAIN) & certified))
        if len(places):
            axes = np.full((len(places), clean.x[0].size), radii[j])
            given, points = hunt.search(Limit(places, axes, clean.labels[places], certified[places]))
            was_right = before[places] == clean.labels[places]
            worse = was_right | ((given != clean.labels[places]) & (given != ABSTAIN))
            answers[places[worse], j:] = given[worse, None]
            part.points[places[worse]] = points[worse]
        on_done(m)
    _regions(part, radii)
    on_done(m)
    return part


def _regions(part: _Part, radii: NDArray[np.float64]) -> None:
    """The pass in which the limit is what the run promises, unless a ball inside has shown another class already."""
    clean, hunt = part.hunt.clean, part.hunt
    has = clean.promised != ABSTAIN
    part.inside[has] = np.where(hunt.said == clean.promised, clean.promised, hunt.said)[has]
    for j in range(1, len(radii)):
        seen, within = part.answers[:, j], clean.radius >= radii[j]
        told = has & within & (part.inside == clean.promised) & (seen != clean.labels)
        told |= has & within & (part.inside == ABSTAIN) & (seen != ABSTAIN) & (seen != clean.labels)
        part.inside[told], part.deepest[told] = seen[told], part.points[told]
    places = np.flatnonzero(has & ((part.inside == clean.promised) | (part.inside == ABSTAIN)))
    if not len(places):
        return
    axes = np.stack([region.axes.ravel() for i in places if (region := clean.regions[i]) is not None])
    given, points = hunt.search(Limit(places, axes, clean.promised[places], np.ones(len(places), bool)))
    other = (given != clean.promised[places]) & (given != ABSTAIN)
    worse = (part.inside[places] == clean.promised[places]) | other
    part.inside[places[worse]], part.deepest[places[worse]] = given[worse], points[worse]
