"""A process that admits its part of a scene to a memory and tells each answer: `writer.py FILE PART PARTS COUNT`."""

import hashlib
import sys

import numpy as np
from conftest import scene

from anisocert.memory import Memory


def main(path, part, parts, count):
    proposals = scene(np.random.default_rng(5), 6, 2, count, crowd=0.4)[part::parts]
    np.random.default_rng(part).shuffle(proposals)
    with Memory.open(path) as memory:
        for proposed in proposals:
            answer = memory.admit(proposed)
            axes = "" if answer.region is None else hashlib.sha256(answer.region.axes.tobytes()).hexdigest()
            print(answer.id, answer.prediction, answer.note, axes, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
