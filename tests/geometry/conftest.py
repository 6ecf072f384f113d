"""Random regions, and linear programs as a slow, independent answer to what the geometry room is asked."""

import numpy as np
import pytest
from scipy.optimize import linprog

from anisocert.geometry import Region


def touch_by_linear_program(a: Region, b: Region) -> float:
    """Smallest gauge of b over the cross-polytope a; variables x, |x - c_a|, |x - c_b|."""
    d = a.dim
    ca, cb, sa, sb = (v.ravel() for v in (a.center, b.center, a.axes, b.axes))
    eye, zero = np.eye(d), np.zeros((d, d))
    rows = np.block(
        [
            [eye, -eye, zero],
            [-eye, -eye, zero],
            [eye, zero, -eye],
            [-eye, zero, -eye],
            [np.zeros((1, d)), (1 / sa)[None], np.zeros((1, d))],
        ]
    )
    limits = np.concatenate([ca, -ca, cb, -cb, [1.0]])
    cost = np.concatenate([np.zeros(2 * d), 1 / sb])
    answer = linprog(cost, A_ub=rows, b_ub=limits, bounds=[(None, None)] * d + [(0, None)] * 2 * d)
    assert answer.status == 0, answer.message
    return float(answer.fun)


def random_region(rng: np.random.Generator, d: int, norm: int, spread: float = 1.0, move: float = 1.0) -> Region:
    """Normal centre, log-normal axes."""
    return Region(move * rng.standard_normal(d), np.exp(spread * rng.standard_normal(d)), norm)


@pytest.fixture(name="touch_by_linear_program", scope="session")
def _touch_by_linear_program():
    return touch_by_linear_program


@pytest.fixture(name="random_region", scope="session")
def _random_region():
    return random_region
