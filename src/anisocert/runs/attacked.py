"""What a run's system withstood from an adversary who comes first."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import errors_explain
from anisocert.certificate import ABSTAIN
from anisocert.errors import ArgumentError
from anisocert.inputs import MOST_CLASSES

MOST_RADII = 100
LARGEST_RADIUS = 1e6  # in the input's units: beyond it float32 rounds away all but the largest differences of inputs
LEVEL = 1e-3  # probability with which `failed` may be a false alarm
Integers = NDArray[np.int64]
COUNTS = ("n", "questions", "starts", "steps", "samples")


@dataclass(frozen=True, eq=False)
class AttackedFirst:
    """What a system with an empty memory answered to the most successful points of an attack; m inputs.

    radii: r of them, ascending, from 0: of the balls that were searched, in the run's norm. ids, labels: `m`, in order
    of id. answers: `m x r`: the label where no point of the ball was answered otherwise, else the class that was, or -1
    if an abstention was all that was found. promised: `m`, the class of the region that the run promises, after its
    memory if it has one; -1 if there is no region. inside: `m`, as answers, of the points in that region: the promised
    class where it held.
    n, alpha: of each question to the system. questions: how many it was asked. seed, starts, steps, samples: of the
    search. rows_hash: of the rows. attempts, expected: how many errors may explain another class inside a region, and
    the sum of their probabilities; 0 and None where noise is chosen per input, as then such an answer is no error.
    """

    radii: NDArray[np.float64]
    ids: Integers = field(repr=False)
    labels: Integers = field(repr=False)
    answers: Integers = field(repr=False)
    promised: Integers = field(repr=False)
    inside: Integers = field(repr=False)
    n: int
    alpha: float
    questions: int
    attempts: int
    expected: float | None
    seed: int
    starts: int
    steps: int
    samples: int
    model_hash: str
    rows_hash: str

    def __post_init__(self) -> None:
        m, radii = len(self.ids), self.radii
        shapes = [array.shape for array in (self.labels, self.promised, self.inside)]
        if m < 1 or shapes != 3 * [(m,)] or self.answers.shape != (m, len(radii)):
            raise ArgumentError(f"expected labels, promised and inside of {m} inputs, and their answers, got others")
        if not 1 <= len(radii) <= MOST_RADII or not (radii <= LARGEST_RADIUS).all():
            raise ArgumentError(f"expected 1 to {MOST_RADII} radii, at most {LARGEST_RADIUS:g}, got {len(radii)}")
        if radii[0] != 0 or (np.diff(radii) <= 0).any():
            raise ArgumentError(f"expected radii that ascend from 0, got {radii.tolist()}")
        if (np.diff(self.ids) <= 0).any() or self.ids[0] < 0:
            raise ArgumentError("expected distinct ids in ascending order, got others")
        if self.labels.min() < 0:
            raise ArgumentError(f"expected labels from 0 on, got {self.labels.min()}")
        for name in ("labels", "answers", "promised", "inside"):
            low, high = getattr(self, name).min(), getattr(self, name).max()
            if not (low >= ABSTAIN and high < MOST_CLASSES):
                raise ArgumentError(f"expected classes below {MOST_CLASSES:,} in {name}, got {low} to {high}")
        if (np.diff(self.withstood.astype(int)) > 0).any():  # the balls are nested
            raise ArgumentError("expected an input lost at one radius to be lost at all larger ones, got others")
        if (self.inside[~self.has_region] != ABSTAIN).any():
            raise ArgumentError("expected inside to be -1 where there is no region, got a class")
        if not 0 < self.alpha < 1 or min(getattr(self, name) for name in COUNTS) < 1:
            raise ArgumentError(f"expected alpha in (0, 1), and {', '.join(COUNTS)} of at least 1, got others")
        if self.seed < 0:
            raise ArgumentError(f"expected seed of at least 0, got {self.seed}")
        if not 0 <= self.attempts <= m + self.questions or (self.attempts == 0) != (self.expected is None):
            raise ArgumentError(
                f"expected attempts, one per input and question at most, and what they lead one to expect, got "
                f"{self.attempts} and {self.expected}"
            )
        if self.expected is not None and not 0 <= self.expected <= self.attempts:
            raise ArgumentError(f"expected the sum of {self.attempts} probabilities as expected, got {self.expected}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def failed(self) -> bool:
        """Whether one classifier for all inputs contradicts its certificates more often than errors explain."""
        if self.expected is None:
            return False
        return not errors_explain(self.otherwise_inside(), self.expected, self.attempts, LEVEL)

    @property
    def withstood(self) -> NDArray[np.bool_]:
        """Where no point was found that is answered otherwise than with the label: `m x r`."""
        right: NDArray[np.bool_] = self.answers == self.labels[:, None]
        return right

    @property
    def has_region(self) -> NDArray[np.bool_]:
        """For which inputs the run promises a region: `m`."""
        mask: NDArray[np.bool_] = self.promised != ABSTAIN
        return mask

    def otherwise(self, index: int, certified: NDArray[np.bool_]) -> int:
        """How many of the certified were given another class in the ball of the radius at `index`. certified: `m`."""
        answers = self.answers[:, index]
        return int((certified & (answers != self.labels) & (answers != ABSTAIN)).sum())

    def abstained(self, index: int, certified: NDArray[np.bool_]) -> int:
        """How many of the certified got no answer there, and no other class."""
        return int((certified & (self.answers[:, index] == ABSTAIN)).sum())

    def otherwise_inside(self) -> int:
        """How many of those with a region were answered with another class in it than the promised one."""
        return int((self.has_region & (self.inside != self.promised) & (self.inside != ABSTAIN)).sum())

    def abstained_inside(self) -> int:
        """How many of those with a region got no answer in it, and no other class."""
        return int((self.has_region & (self.inside == ABSTAIN)).sum())
