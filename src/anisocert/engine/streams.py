"""Noise streams: what is drawn depends on (seed, stage, example id, vote) and on nothing else.

Stages never share noise: a stage-0 vote that re-appeared in the estimate would break the certificate's alpha.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from anisocert.errors import ArgumentError

MAX_ID = 2**60  # ids and the stage share one 64-bit counter word on the GPU


class Stage(IntEnum):
    """What the noise is drawn for."""

    OPTIMIZE = 0
    PILOT = 1
    SELECT = 2
    ESTIMATE = 3
    PREDICT = 4


@dataclass(frozen=True)
class Stream:
    """The noise of one stage of one example."""

    seed: int
    stage: Stage
    id: int

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**64:
            raise ArgumentError(f"expected seed in [0, 2**64), got {self.seed}")
        if not 0 <= self.id < MAX_ID:
            raise ArgumentError(f"expected example ids in [0, 2**60), got {self.id}")

    def generator(self, lane: int = 0) -> np.random.Generator:
        """A generator at this stream's first draw; streams and lanes are disjoint parts of Philox' counter space."""
        key = np.array([self.seed, self.stage], np.uint64)
        counter = np.array([0, 0, lane, self.id], np.uint64)  # 2^128 draws before the next lane begins
        return np.random.Generator(np.random.Philox(key=key, counter=counter))
