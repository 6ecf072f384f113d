"""Slow, independent answers to what the geometry room is asked: linear programs, fractions, 120-digit decimals."""

from decimal import Decimal, localcontext
from fractions import Fraction

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


def exact_touch_l1(a: Region, b: Region) -> Fraction:
    """The same exactly, by the fractional knapsack in rational numbers."""
    items = []
    for ca, cb, sa, sb in zip(a.center.flat, b.center.flat, a.axes.flat, b.axes.flat, strict=True):
        items.append((abs(Fraction(cb) - Fraction(ca)), 1 / Fraction(sa), 1 / Fraction(sb)))
    missing = sum((y * inv_a for y, inv_a, _ in items), Fraction(0)) - 1
    cost = Fraction(0)
    for y, inv_a, inv_b in sorted(items, key=lambda item: item[1] / item[2], reverse=True):
        if missing <= 0:
            break
        step = min(y, missing / inv_a)
        cost += step * inv_b
        missing -= step * inv_a
    return cost


def exact_touch_l2(a: Region, b: Region) -> Decimal:
    """Smallest gauge of b over the ellipsoid a, to 50 digits: bisection for the multiplier of the touch point."""
    with localcontext() as context:
        context.prec = 120
        items = []
        for ca, cb, sa, sb in zip(a.center.flat, b.center.flat, a.axes.flat, b.axes.flat, strict=True):
            a2, b2 = Decimal(sa) ** 2, Decimal(sb) ** 2
            items.append(((Decimal(cb) - Decimal(ca)) ** 2, a2, b2))

        def gauge_a(multiplier: Decimal) -> Decimal:
            return sum((y2 * a2 / (a2 + multiplier * b2) ** 2 for y2, a2, b2 in items), Decimal(0))

        if gauge_a(Decimal(0)) <= 1:
            return Decimal(0)
        low, high = Decimal(1) / 1024, Decimal(1)
        while gauge_a(high) > 1:
            low, high = high, high * 1024
        while gauge_a(low) <= 1:
            low, high = low / 1024, low
        for _ in range(200):
            middle = (low + high) / 2
            if gauge_a(middle) > 1:
                low = middle
            else:
                high = middle
        square = sum((y2 * low**2 * b2 / (a2 + low * b2) ** 2 for y2, a2, b2 in items), Decimal(0))
        return square.sqrt()


def exact_touch(a: Region, b: Region) -> Fraction:
    """Smallest gauge of b over a; exact for norm 1, to 50 digits for norm 2."""
    return exact_touch_l1(a, b) if a.norm == 1 else Fraction(exact_touch_l2(a, b))


def random_region(rng: np.random.Generator, d: int, norm: int, spread: float = 1.0, move: float = 1.0) -> Region:
    """Normal centre, log-normal axes."""
    return Region(move * rng.standard_normal(d), np.exp(spread * rng.standard_normal(d)), norm)


@pytest.fixture(name="touch_by_linear_program", scope="session")
def _touch_by_linear_program():
    return touch_by_linear_program


@pytest.fixture(name="exact_touch", scope="session")
def _exact_touch():
    return exact_touch


@pytest.fixture(name="random_region", scope="session")
def _random_region():
    return random_region
