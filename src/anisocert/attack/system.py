"""A whole system under attack: whatever arrives, its answers may not change inside a region that it has promised.

The system answers by its memory where a promise covers the input, else by certifying it and admitting the certificate.
The attack sends it points of stored regions, those that the network is most likely to answer otherwise, and newcomers
that claim the rival's class for themselves. It works on a copy: nothing is written to the memory in use.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.attack.search import INSIDE, Search, ascend
from anisocert.attack.targets import Targets
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.engine import Network
from anisocert.geometry import Region
from anisocert.memory import POLICIES, BrokenMemoryError, Memory
from anisocert.optimize.soft import Outputs

NEIGHBOURS = 2  # of other classes, towards which points are taken
FIRST_ID = 1 << 59  # of the attack's own inputs, beyond those of any data set

AT_ONCE = 16

Aimed = tuple[Certificate, NDArray[np.float32]]
"""A promise, and a point of its region."""

Certify = Callable[[NDArray[np.float32], Sequence[int]], Sequence[Certificate]]
"""(x `b x *shape`, ids) -> what the smoothed classifier proposes about new inputs."""


@dataclass(frozen=True, eq=False)
class Changed:
    """An answer other than the one promised; None where the memory had none, or contradicted itself.

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

    abstained: how many questions got no answer although a promise covers them; None where no abstention is allowed.
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


@contextmanager
def copy_of(path: Path) -> Iterator[Memory]:
    """A private copy of a memory, which ends with the block.

    What is attacked are answers: newcomers spend alpha, of which one for a lifetime would not have enough, so that in
    the copy each has its own.
    """
    with Memory.open(path, read_only=True) as memory, memory.copy() as copy:
        yield copy


def attack_system(
    memory: Memory,
    network: Network,
    certify: Certify,
    *,
    how: Search | None = None,
    most: int | None = None,
    seed: int = 0,
    outputs: Outputs = "logits",
    guide: Network | None = None,
    on_done: Callable[[int], None] = lambda _: None,
) -> SystemAttack:
    """Ask a memory (a copy: newcomers are admitted to it) about hostile points of `most` of its regions.

    certify: what the smoothed classifier says about new inputs. on_done is told how many promises more were attacked.
    """
    everyone = list(memory.entries())
    spaced = np.unique(np.linspace(0, len(everyone) - 1, min(most or len(everyone), len(everyone))).round().astype(int))
    promises = [everyone[i] for i in spaced]
    questions = _Questions(memory)
    for first in range(0, len(promises), AT_ONCE):
        part = promises[first : first + AT_ONCE]
        points = _points(Targets.of(network, part, seed), part, everyone, how or Search(), outputs, guide)
        ids = range(FIRST_ID + 2 * len(questions.points), FIRST_ID + 2 * (len(questions.points) + len(points)), 2)
        proposals = certify(np.stack([point for _, point in points]), ids)
        for (promise, point), proposal in zip(points, proposals, strict=True):
            questions.ask(promise, point, "lookup", memory.lookup)
            questions.admit(promise, point, "newcomer", proposal)
            questions.admit(promise, point, "claim", _claim(promise, point, proposal, network.num_classes))
        questions.points += points
        on_done(len(part))
    for promise, point in questions.points:  # and once more, after all newcomers have come
        questions.ask(promise, point, "lookup", memory.lookup)
    conflicts = len(memory.check().conflicts)
    abstained = questions.abstained if questions.may_abstain else None
    return SystemAttack(len(promises), questions.asked, tuple(questions.changed), conflicts, abstained)


class _Questions:
    """What was asked, and which answers were not the promised ones."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.may_abstain = memory, not POLICIES[memory.policy].inherits
        self.points, self.changed, self.asked, self.abstained = list[Aimed](), list[Changed](), 0, 0

    def admit(self, promise: Certificate, point: NDArray[np.float32], how: str, proposal: Certificate) -> None:
        """Let a newcomer in; weaker policies may abstain, and still must not contradict."""
        self.ask(promise, point, how, lambda _: self.memory.admit(proposal), self.may_abstain)

    def ask(
        self,
        promise: Certificate,
        point: NDArray[np.float32],
        how: str,
        answer: Callable[[NDArray[np.float32]], Certificate | None],
        may_abstain: bool = False,
    ) -> None:
        """Ask about a point of a promised region, and note an answer that breaks the promise."""
        self.asked += 1
        try:
            found = answer(point)
        except BrokenMemoryError:
            found = None
        said = None if found is None else found.prediction
        if said == promise.prediction:
            return
        if may_abstain and said == ABSTAIN:
            self.abstained += 1
            return
        assert promise.region is not None
        gauge = promise.region.gauge(point)
        self.changed.append(Changed(promise.id, promise.prediction, said, how, gauge, point))


def _points(
    targets: Targets,
    promises: Sequence[Certificate],
    everyone: Sequence[Certificate],
    how: Search,
    outputs: Outputs,
    guide: Network | None,
) -> list[Aimed]:
    """Points of each region: where the ascents end, and on the way to the nearest promises of other classes."""
    ends = ascend(targets, how, outputs, guide)
    aimed: list[Aimed] = []
    for i, promise in enumerate(promises):
        one = targets.part(torch.full((how.starts,), i))
        aimed += [(promise, point) for point in one.points(ends[i]).view(-1, *targets.query.shape).cpu().numpy()]
        aimed += [(promise, point) for point in _towards(promise, everyone)]
    return aimed


def _towards(promise: Certificate, everyone: Sequence[Certificate]) -> Iterator[NDArray[np.float32]]:
    """Points near the border, in the direction of the nearest inputs that were promised another class."""
    region = promise.region
    assert region is not None
    others = [one.region.center for one in everyone if one.region and one.prediction != promise.prediction]
    for center in sorted(others, key=lambda c: float(np.abs(c - region.center).max()))[:NEIGHBOURS]:
        away = center - region.center
        for share in (INSIDE, INSIDE - 1e-5, INSIDE - 1e-3):  # float32 may round the first ones out
            point = (region.center + away * min(1.0, share / region.gauge(center))).astype(np.float32)
            if region.gauge(point) <= INSIDE:
                yield point
                break


def _claim(promise: Certificate, point: NDArray[np.float32], proposal: Certificate, classes: int) -> Certificate:
    """A newcomer that says the point is of another class, in a region as large as the one it lies in."""
    assert promise.region is not None
    rival = proposal.prediction
    if rival in (ABSTAIN, promise.prediction):
        rival = (promise.prediction + 1) % classes
    region = Region(point, promise.region.axes, promise.region.norm)
    return replace(promise, id=proposal.id + 1, prediction=rival, region=region, note="", reason="")
