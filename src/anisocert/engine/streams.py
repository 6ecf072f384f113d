"""Noise streams: what is drawn depends on (seed, stage, example id, vote) and on nothing else.

Stages never share noise: a stage-0 vote that reappeared in the estimate would break the certificate's alpha.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from anisocert.errors import ArgumentError


class Stage(IntEnum):
    """What the noise is drawn for."""

    OPTIMIZE = 0
    PILOT = 1
    SELECT = 2
    ESTIMATE = 3
    PREDICT = 4
    SEARCH = 5  # for counter-examples
    REFUTE = 6  # whether what was found is one
    NAME = 7  # a code, by a selector
    CAPTURE = 8  # how surely it names that code


FURTHER = 2
"""The lane of words that are needed now and then; lanes 0 and 1 are read in order."""


@dataclass(frozen=True)
class Stream:
    """The noise of one stage of one example.

    seed: below 2^64. id: below 2^60, because it shares one 64-bit counter word with the stage on the GPU.
    """

    seed: int
    stage: Stage
    id: int

    def __post_init__(self) -> None:
        # Whole numbers only: 0.5 would be cut to 0 and share the noise of another stream.
        for name, field, power in (("seed", "seed", 64), ("example ids", "id", 60)):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 2**power:
                raise ArgumentError(f"expected {name}: whole numbers in [0, 2**{power}), got {value!r}")
            object.__setattr__(self, field, int(value))  # numpy's would overflow where words are computed of them

    def generator(self, lane: int = 0, at: tuple[int, int] = (0, 0)) -> np.random.Generator:
        """A generator at this stream's first draw; streams and lanes are disjoint parts of Philox' counter space.

        at: where in the lane, each below 2^64, the second one counting for 2^64 of the first.
        """
        key = np.array([self.seed, self.stage], np.uint64)
        counter = np.array([*at, lane, self.id], np.uint64)  # 2^128 draws before the next lane begins
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

    def further(self, vote: int, element: int) -> Iterator[int]:
        """Words of 64 bits for one element (below 2^32) of one vote whose first word does not decide, on any device."""
        source = self.generator(FURTHER, (element << 32, vote)).bit_generator
        while True:  # 2^34 words before the next element's begin
            yield int(source.random_raw())


def philox(seed: int, *counter: np.ndarray) -> list[np.ndarray]:
    """Philox4x32-10 on the host: four words for each counter, which is four arrays, of 32-bit values; uint64 all."""
    c0, c1, c2, c3 = (word.astype(np.uint64) for word in counter)
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for i in range(10):
        k0, k1 = (
            np.uint64((key + i * step) & 0xFFFFFFFF) for key, step in ((seed, 0x9E3779B9), (seed >> 32, 0xBB67AE85))
        )
        left, right = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = right >> shift ^ c1 ^ k0, right & mask, left >> shift ^ c3 ^ k1, left & mask
    return [c0, c1, c2, c3]
