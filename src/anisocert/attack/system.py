"""A whole system under attack: whatever arrives, its answers may not change inside a region that it has promised.

The attack asks about points of stored regions, those that the network is most likely to answer differently, and sends
newcomers to the memory: the network's own answers at those points, as another process might at the same moment, and
forged certificates that claim the rival's class. It works on a copy: nothing is written to the memory in use.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.attack._targets import Targets
from anisocert.attack.search import INSIDE, Finder, Search
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.data import evenly
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.memory import INHERITED, POLICIES, BrokenMemoryError, Memory
from anisocert.optimize import Anisotropic
from anisocert.system import System

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

NEIGHBOURS = 2  # of other classes, towards which points are taken
AT_ONCE = 16

Aimed = tuple[Certificate, NDArray[np.float32]]
"""A promise, and a point of its region."""


@dataclass(frozen=True, eq=False)
class Changed:
    """An answer other than the one promised; None if the memory had none, or contradicted itself.

    how: asked by "lookup", or by a "newcomer" (certified and admitted), or by one with a forged "claim".
    """

    promise: int
    promised: int
    answer: int | None
    how: str
    gauge: float
    x: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SystemAttack:
    """What the attack found. promises, questions: how many. conflicts: pairs of regions that may meet afterwards.

    abstained: how many questions got no answer although a promise covers them; None if no abstention is allowed.
    """

    promises: int
    questions: int
    changed: tuple[Changed, ...]
    conflicts: int
    abstained: int | None = None

    @property
    def failed(self) -> bool:
        """Whether any promise was broken; no probability is involved."""
        return bool(self.changed) or self.conflicts > 0


def system_of(run: "StoredRun", network: Network, memory: Memory, n: int) -> System:
    """The system that a run is of: its method and noise, with n votes per newcomer, behind a copy of a memory.

    What is attacked are answers: newcomers spend alpha, of which one for a lifetime would not have enough, so that in
    the copy each has its own.
    """
    c = run.configuration
    method = c.chooser(next(iter(run.thetas.values())) if c.method == "average" else None)
    plan = replace(run.plan, n=n, stop=None, target_radius=None)
    return System(network, smoothing=c.smoothing(), method=method, plan=plan, memory=memory, secret=os.urandom(32))


def attack_system(
    system: System,
    *,
    how: Search | None = None,
    most: int | None = None,
    on_done: Callable[[int], None] = lambda _: None,
) -> SystemAttack:
    """Ask a system about hostile points of `most` of the regions that it has promised.

    Its memory must be a copy (`Memory.copy`): true and false newcomers are admitted to it. on_done is called with
    how many more promises were attacked.
    """
    memory, how, questions = system.memory, how or Search(), _Questions(system)
    entries = list(memory.entries())
    if not entries:
        raise ArgumentError("expected a promise to attack, got none: the memory is empty")
    promises = [entries[i] for i in evenly(len(entries), most)]
    for first in range(0, len(promises), AT_ONCE):
        part = promises[first : first + AT_ONCE]
        # A method refuses inputs outside its domain: no newcomer comes from there.
        domain = system.method.domain if isinstance(system.method, Anisotropic) else None
        targets = Targets.of(system.network, part, how.seed, system.smoothing, domain)
        points = _points(targets, part, entries, how)
        proposals = system.propose(np.stack([point for _, point in points]))
        for (promise, point), proposal in zip(points, proposals, strict=True):
            questions.ask(promise, point)
            questions.admit(promise, point, "newcomer", proposal)
            questions.admit(promise, point, "claim", _claim(promise, point, proposal))
        questions.points += points
        on_done(len(part))
    for promise, point in questions.points:  # and once more, after all newcomers have come
        questions.ask(promise, point)
    conflicts, abstained = memory.check().conflicts, questions.abstained if questions.may_abstain else None
    return SystemAttack(len(promises), questions.asked, tuple(questions.changed), len(conflicts), abstained)


class _Questions:
    """What was asked, and which answers were not the promised ones."""

    def __init__(self, system: System) -> None:
        self.system, self.may_abstain = system, not POLICIES[system.memory.policy].inherits
        self.points, self.changed, self.asked, self.abstained = list[Aimed](), list[Changed](), 0, 0

    def ask(self, promise: Certificate, point: NDArray[np.float32]) -> None:
        """Ask the system, which must answer by a promise and not by the network."""
        answer = self._said(lambda: self.system.answer(point))
        self._note(promise, point, "lookup", answer.prediction if answer and answer.note == INHERITED else None)

    def admit(self, promise: Certificate, point: NDArray[np.float32], how: str, proposal: Certificate) -> None:
        """Admit a newcomer; weaker policies may abstain, but must not contradict."""
        answer = self._said(lambda: self.system.memory.admit(proposal))
        if self.may_abstain and answer is not None and answer.prediction == ABSTAIN:
            self.asked, self.abstained = self.asked + 1, self.abstained + 1
        else:
            self._note(promise, point, how, None if answer is None else answer.prediction)

    @staticmethod
    def _said(answer: Callable[[], Certificate]) -> Certificate | None:
        try:
            return answer()
        except BrokenMemoryError:
            return None

    def _note(self, promise: Certificate, point: NDArray[np.float32], how: str, answer: int | None) -> None:
        self.asked += 1
        if answer != promise.prediction:
            assert promise.region is not None
            gauge = promise.region.gauge(point)
            self.changed.append(Changed(promise.id, promise.prediction, answer, how, gauge, point))


def _points(
    targets: Targets, promises: Sequence[Certificate], entries: Sequence[Certificate], how: Search
) -> list[Aimed]:
    """Points of each region: where the ascents end, and on the way to the nearest promises of other classes."""
    ends = Finder(targets, how).ascents()
    aimed: list[Aimed] = []
    for i, promise in enumerate(promises):
        copies = targets.part(torch.full((how.starts,), i, device="cpu"))
        aimed += [(promise, point) for point in copies.points(ends[i]).view(-1, *targets.query.shape).cpu().numpy()]
        aimed += [(promise, point) for point in _towards(promise, entries)]
    return aimed


def _towards(promise: Certificate, entries: Sequence[Certificate]) -> Iterator[NDArray[np.float32]]:
    """Points near the boundary, in the direction of the nearest inputs that were promised another class."""
    region = promise.region
    assert region is not None
    centers = [other.region.center for other in entries if other.region and other.prediction != promise.prediction]
    for center in sorted(centers, key=lambda c: float(np.abs(c - region.center).max()))[:NEIGHBOURS]:
        away = center - region.center
        for share in (INSIDE, INSIDE - 1e-5, INSIDE - 1e-3):  # float32 may round the first ones out
            point = (region.center + away * min(1.0, share / region.gauge(center))).astype(np.float32)
            if region.gauge(point) <= INSIDE:
                yield point
                break


def _claim(promise: Certificate, point: NDArray[np.float32], proposal: Certificate) -> Certificate:
    """A newcomer that says the point is of another class, in a region as large as the one it lies in."""
    assert promise.region is not None
    rival = proposal.prediction
    if rival in (ABSTAIN, promise.prediction):
        rival = (promise.prediction + 1) % promise.num_classes
    region = Region(point, promise.region.axes, promise.region.norm)
    return replace(promise, id=proposal.id ^ 1, prediction=rival, region=region, note="", reason="")
