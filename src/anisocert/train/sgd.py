"""The optimiser's side of a training: SGD with momentum, and how its learning rate moves."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from anisocert.errors import ArgumentError, expect_one_of

Schedule = Literal["one-cycle", "cosine", "step"]


@dataclass(frozen=True)
class Sgd:
    """SGD with Nesterov momentum.

    Args:
        epochs: how often each example is seen.
        batch_size: examples per step.
        learning_rate: the largest of the schedule.
        momentum: of the steps.
        weight_decay: of all weights.
        schedule: "one-cycle" rises for 30 % of the steps and falls as a cosine; "cosine" only falls; "step" divides by
            ten after each third of the epochs (Cohen et al. 2019: every 30 of 90).
        clip: the largest norm of a step's gradient, which is shortened to it.
    """

    epochs: int = 60
    batch_size: int = 256
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Schedule = "one-cycle"
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ArgumentError(
                f"expected epochs >= 1 and batch_size >= 1, got epochs {self.epochs} and batch_size {self.batch_size}"
            )
        if not (0 < self.learning_rate < math.inf and 0 <= self.momentum < 1 and self.weight_decay >= 0):
            raise ArgumentError(
                "expected learning_rate > 0, momentum in [0, 1) and weight_decay >= 0, "
                f"got {self.learning_rate}, {self.momentum} and {self.weight_decay}"
            )
        if self.clip is not None and not self.clip > 0:
            raise ArgumentError(f"expected clip > 0, got {self.clip}")
        expect_one_of("schedule", self.schedule, get_args(Schedule))

    @classmethod
    def suited(cls, examples: int, epochs: int = 60) -> "Sgd":
        """The defaults for a data set of this size: small ones need smaller batches to take enough steps."""
        return cls(epochs) if examples >= 10_000 else cls(epochs, batch_size=64, learning_rate=0.05)

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of one step (from 0) of `steps`: a function of nothing else, so that resuming is exact."""
        progress = step / max(1, steps)
        if self.schedule == "step":
            return self.learning_rate * 0.1 ** int(3 * progress)
        if self.schedule == "cosine":
            return _between(self.learning_rate, 0.0, progress)
        rise = 0.3
        if progress < rise:
            return _between(self.learning_rate / 25, self.learning_rate, progress / rise)
        return _between(self.learning_rate, self.learning_rate / 25e4, (progress - rise) / (1 - rise))


def _between(start: float, end: float, progress: float) -> float:
    """Half a cosine from start to end."""
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2
