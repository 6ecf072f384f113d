"""A network's behaviour on a few fixed inputs: stored with what is promised, and compared when that is used again.

The second line behind the model hash, for what no hash can see (a name that the user gave to two networks, a library
that computes differently in its next version).
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri

from anisocert.engine.trial import GROUPS, alike
from anisocert.errors import ArgumentError

ROWS = 4 * GROUPS
SPREADS = ((0.5, 0.25), (0.0, 1.0), (0.0, 100.0))  # centre and scale; beside them, rows uniform in [0, 1]
# The most that one network was seen to differ is in bfloat16 on two kinds of devices: 8 bits of each product,
# some tens of layers, up to 3 % of how much scores change between inputs. Other networks differ by all of that.
RELATIVE, ABSOLUTE = 0.1, 2e-2


def probe_inputs(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The inputs, `ROWS x *shape`: a function of the shape alone, by a generator whose bits are fixed for good."""
    bits = np.random.Philox(key=0).random_raw((ROWS, *shape))
    uniform = ((bits >> np.uint64(40)).astype(np.float64) + 0.5) / (1 << 24)
    x = uniform.copy()
    for group, (centre, scale) in enumerate(SPREADS, start=1):
        x[group::GROUPS] = centre + scale * ndtri(uniform[group::GROUPS])
    return x.astype(np.float32)


def same_behaviour(stored: NDArray[np.floating], found: NDArray[np.floating]) -> bool:
    """Whether two probes, `rows x num_classes`, can be of one network, computed on any device.

    Each block of ROWS is compared by itself: networks that answer together may have scores of very different sizes.

    A row in which both have NaN says nothing; each other score must be close (see `alike`), which lets the largest
    score of a row move to another class only where the two were nearly equal.
    """
    if stored.shape != found.shape or stored.ndim != 2:
        return False
    unusable = np.isnan(stored).any(1) & np.isnan(found).any(1)
    a, b = (np.where(unusable[:, None], 0.0, probe.astype(np.float64)) for probe in (stored, found))
    blocks = [slice(first, first + ROWS) for first in range(0, len(a), ROWS)]
    return all(_close(a[at], b[at]) and _close(_centred(a[at]), _centred(b[at])) for at in blocks)


def _close(stored: NDArray[np.float64], found: NDArray[np.float64]) -> bool:
    a, b = torch.from_numpy(stored), torch.from_numpy(found)
    return all(alike(a[group::GROUPS], b[group::GROUPS], RELATIVE, ABSOLUTE) for group in range(min(GROUPS, len(a))))


def _centred(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores without what a row's classes have in common: no vote depends on it, and it could hide the rest."""
    some = np.isfinite(scores).any(1, keepdims=True)
    finite = np.where(np.isfinite(scores), scores, np.nan)
    return np.asarray(scores - np.nanmedian(np.where(some, finite, 0.0), axis=1, keepdims=True))


def as_json(probe: NDArray[np.float32]) -> list[list[float | str]]:
    """A probe as JSON can keep it: six digits, and words for what is not finite."""
    return [[float(f"{value:.6g}") if np.isfinite(value) else str(float(value)) for value in row] for row in probe]


def from_json(kept: Sequence[Sequence[float | str]]) -> NDArray[np.float32]:
    """Back from JSON."""
    try:
        probe = np.array([[float(value) for value in row] for row in kept], np.float32)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"expected a probe as rows of scores, got something else ({error})") from error
    if probe.ndim != 2:
        raise ArgumentError(f"expected a probe as rows of scores, got an array of {probe.ndim} dimensions")
    return probe
