"""What a key is told of an answer: everything about a promise to this very input, of any other promise only the class.

The promise that covers an input was often made to another client's input. Its id, its votes, and the room it leaves
around points of one's choice reveal where that input lies, for a ball to the last bit. So radius, region and evidence
of such a promise are told only to keys with the right to regions. To others the radius is 0, which is true of any
region. The radius of a region that had to shrink is hidden as well: it ends where another client's region begins.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.data.dataset import in_words
from anisocert.memory import INHERITED, POLICIES, SHRUNK
from anisocert.report import answer_sentence
from anisocert.report.sentence import SYSTEM
from anisocert.service._question import USUAL
from anisocert.service.keys import REGIONS, Key
from anisocert.smoothing import SELECTOR
from anisocert.system import System

NONE: Final = "none"
FACTS: Final = (
    "id", "alpha", "votes", "top_votes", "runner_up_votes", "bound_k", "bound_n", "bound", "stop", "p_a",
    "p_b", "gap", "method", "norm", "noise", "num_classes", "model_hash", *SELECTOR,
)  # fmt: skip
Answer = Certificate | None


@dataclass(frozen=True)
class Names:
    """How classes and inputs are called. unit_range: whether all values are known to lie in [0, 1]."""

    classes: tuple[str, ...] = ()
    unit_range: bool = False

    def of(self, label: int) -> str:
        """A class in words."""
        return in_words(label, self.classes)


@dataclass(frozen=True, eq=False)
class Teller:
    """Makes outputs of answers. system: whose answers they are."""

    system: System
    names: Names = field(default_factory=Names)

    def outputs(self, wanted: Iterable[str], answers: list[Answer], x: NDArray[np.float32], key: Key) -> dict[str, Any]:
        """Tensors by name. answers: one per input, None where nothing is promised. x: the inputs, `b x *shape`."""
        pairs = list(zip(answers, x, strict=True))
        told = [(answer, answer is not None and self._whole(answer, point, key)) for answer, point in pairs]
        sized = [
            answer if answer is not None and whole and self._sized(answer, key) else None for answer, whole in told
        ]
        makers: dict[str, Callable[[], Any]] = {
            "prediction": lambda: np.array([ABSTAIN if c is None else c.prediction for c, _ in told], "<i8"),
            "radius": lambda: np.array([c.radius if c else 0.0 for c in sized], "<f8"),
            "proxy_radius": lambda: np.array([c.proxy_radius if c else 0.0 for c in sized], "<f8"),
            "note": lambda: [NONE if c is None else c.note for c, _ in told],
            "region": lambda: np.stack([_axes(c, x[0]) for c in sized]),
            "theta": lambda: np.stack([_theta(c if whole else None, x[0]) for c, whole in told]),
            "evidence": lambda: [json.dumps(_evidence(c, whole)) for c, whole in told],
            "sentence": lambda: [
                self._sentence(c, whole, size is not None) for (c, whole), size in zip(told, sized, strict=True)
            ],
        }
        return {name: makers[name]() for name in wanted}

    def is_quick(self, wanted: Iterable[str], answers: list[Answer], key: Key) -> bool:
        """Whether `outputs` takes next to no time: nothing wide is told, and the memory is not asked whose it is."""
        return set(wanted) <= set(USUAL) and not any(answer is not None and _shared(answer, key) for answer in answers)

    def _whole(self, answer: Certificate, point: NDArray[np.float32], key: Key) -> bool:
        """Whether the key may know all of an answer: it may, if the promise was made to this very input."""
        if not _shared(answer, key):
            return True
        promise = self.system.memory.find(answer.id)
        return promise is not None and promise.region is not None and np.array_equal(promise.region.center, point)

    def _sized(self, answer: Certificate, key: Key) -> bool:
        """Whether the key may know how far the region of an answer reaches, if it may know all else of the answer."""
        if answer.prediction == ABSTAIN or key.may(REGIONS):
            return True
        promise = self.system.memory.find(answer.id) if answer.note == INHERITED else answer
        return promise is not None and promise.note != SHRUNK

    def _sentence(self, answer: Answer, whole: bool, sized: bool) -> str:
        if answer is None:
            return "Nothing is promised about this input: no promise covers it, and nothing was certified."
        name, keeps = self.names.of(answer.prediction), POLICIES[self.system.memory.policy].inherits
        if not whole:
            return (
                f"{SYSTEM} answers this input with {name}, because it lies in a region promised earlier, about which "
                "this key is told nothing else."
            )
        if not sized:
            return (
                f"{SYSTEM} answers this input with {name}, and gives no other class in a region around it, which "
                "had to make room for others: this key is not told how far it reaches."
            )
        return answer_sentence(replace(answer, reason=reason_of(answer)), name, keeps, self.names.unit_range)


def _shared(answer: Certificate, key: Key) -> bool:
    """Whether the promise may have been made to another input, and the key may not know about those."""
    return answer.note == INHERITED and not key.may(REGIONS)


def reason_of(answer: Certificate) -> str:
    """Why there is no answer, without what the memory or the network says about others, or about the machine."""
    if answer.prediction != ABSTAIN:
        return ""
    if answer.reason.startswith("the network failed"):
        return "the network failed on this input"
    if "promised" in answer.reason:
        return "an earlier promise of another class leaves no room here"
    return answer.reason


def _evidence(answer: Answer, whole: bool) -> dict[str, Any]:
    if answer is None:
        return {"told": False}
    if not whole:
        return {"told": False, "note": answer.note, "norm": answer.norm, "model_hash": answer.model_hash}
    # A browser's numbers have 53 bits, an id has 60.
    facts = {name: getattr(answer, name) for name in FACTS} | {"id": str(answer.id)}
    return {"told": True, "note": answer.note, "reason": reason_of(answer)} | facts


def _axes(answer: Answer, like: NDArray[np.float32]) -> NDArray[np.float64]:
    if answer is None or answer.region is None:
        return np.zeros(like.shape)
    return np.broadcast_to(np.asarray(answer.region.axes, np.float64), like.shape)


def _theta(answer: Answer, like: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.broadcast_to(np.asarray(0.0 if answer is None else answer.theta, np.float32), like.shape)
