import math
from fractions import Fraction

import numpy as np
import pytest
from fixtures.regions import exact_touch, random_region
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from anisocert.errors import ArgumentError
from anisocert.geometry import Region, Regions, disjoint, distance, touch_scale

NORMS = pytest.mark.parametrize("norm", [1, 2])


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


def check_pair(truth: Fraction, a: Region, b: Region, relative: float = 1e-9) -> None:
    """All relations of a pair against the exact touch scale, in both orders."""
    k = touch_scale(a, b)
    assert 0 <= Fraction(k) <= truth
    assert k >= float(truth) * (1 - relative)
    assert disjoint(a, b) == disjoint(b, a)
    if disjoint(a, b):
        assert truth > 1
    else:
        assert truth <= 1 + Fraction(relative)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10, 50])
def test_cross_polytopes_against_a_linear_program(d):
    rng = np.random.default_rng(d)
    for _ in range(15):
        a, b = random_region(rng, d, 1, move=2 / d), random_region(rng, d, 1, move=2 / d)
        truth = touch_by_linear_program(a, b)
        assert float(exact_touch(a, b)) == pytest.approx(truth, rel=1e-7, abs=1e-7)
        assert touch_scale(a, b) == pytest.approx(truth, rel=1e-7, abs=1e-7)
        unit = Region(b.center, 1.0, 1)
        assert distance(a, b.center) == pytest.approx(touch_by_linear_program(a, unit), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_ellipsoids_against_a_convex_solver(d):
    rng = np.random.default_rng(d)
    for _ in range(8):
        a, b = random_region(rng, d, 2, 0.5), random_region(rng, d, 2, 0.5)
        inside = {"type": "ineq", "fun": lambda x, a=a: 1 - np.sum(((x - a.center) / a.axes) ** 2)}
        start = a.center + 0.1 * (b.center - a.center)
        for target, measured in ((b.axes, touch_scale(a, b)), (np.ones(d), distance(a, b.center))):
            answer = minimize(
                lambda x, b=b, s=target: np.sum(((x - b.center) / s) ** 2),
                start,
                method="SLSQP",
                constraints=[inside],
                options={"ftol": 1e-14, "maxiter": 500},
            )
            assert measured**2 == pytest.approx(answer.fun, rel=1e-5, abs=1e-6)


@NORMS
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5])
@pytest.mark.parametrize("d", [1, 2, 3, 7, 50])
def test_random_pairs_against_exact_numbers(norm, spread, d):
    rng = np.random.default_rng([norm, d, int(10 * spread)])
    for _ in range(8):
        move = 3.0 if norm == 2 else 6 / d
        a, b = random_region(rng, d, norm, spread, move), random_region(rng, d, norm, spread, move)
        truth = exact_touch(a, b)
        check_pair(truth, a, b)
        if truth > 0:
            # Close to touching, from either side.
            for factor in (1 - 1e-6, 1 + 1e-6):
                near = b.scaled(float(truth) * factor)
                assert disjoint(a, near) == disjoint(near, a) == (factor < 1)
        unit = Region(b.center, 1.0, norm)
        far = exact_touch(a, unit)
        assert float(far) * (1 - 1e-9) <= distance(a, b.center)
        assert Fraction(distance(a, b.center)) <= far


@NORMS
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_never_optimistic_whatever_the_numbers(norm, data):
    d = data.draw(st.integers(1, 4))
    sizes = st.one_of(st.floats(2**-20, 2**20), st.floats(1e-12, 1e12), st.integers(1, 9).map(float))
    places = st.one_of(st.floats(-10, 10), st.floats(-1e12, 1e12), st.integers(-9, 9).map(float))
    draw = lambda of: data.draw(st.lists(of, min_size=d, max_size=d))  # noqa: E731
    a, b = Region(draw(places), draw(sizes), norm), Region(draw(places), draw(sizes), norm)
    truth = exact_touch(a, b)
    k = touch_scale(a, b)
    assert 0 <= Fraction(k) <= truth
    assert not (disjoint(a, b) and truth <= 1)
    assert disjoint(a, b) == disjoint(b, a)
    point = exact_touch(a, Region(b.center, 1.0, norm))
    assert 0 <= Fraction(distance(a, b.center)) <= point


@NORMS
@pytest.mark.parametrize("d", [1, 2, 3])
def test_exactly_touching_regions_are_not_disjoint(norm, d):
    # Two balls at a distance that is an exact sum of radii, then every coordinate stretched by a power of two: exact.
    rng = np.random.default_rng([norm, d])
    triples = {(1, 1): [[4.0]], (2, 1): [[4.0]], (2, 2): [[3.0, 4.0]], (2, 3): [[2.0, 3.0, 6.0], [1.0, 4.0, 8.0]]}
    for _ in range(150):
        if norm == 1:
            gap = rng.integers(0, 1000, d) + 1.0
            length = gap.sum()
        else:
            choices = triples[2, d]
            gap = np.array(choices[rng.integers(len(choices))]) * rng.integers(1, 1 << 20)
            length = math.isqrt(int((gap**2).sum()))
        share = float(rng.integers(1, int(length))) if length > 1 else 0.5
        stretch = 2.0 ** rng.integers(-30, 30, d)
        center = rng.integers(-1000, 1000, d) * stretch
        a = Region(center, share * stretch, norm)
        b = Region(center + rng.choice([-1, 1], d) * gap * stretch, (length - share) * stretch, norm)
        assert exact_touch(a, b) == 1 if norm == 1 else abs(exact_touch(a, b) - 1) < Fraction(1, 10**40)
        assert not disjoint(a, b)
        assert not disjoint(b, a)
        assert 1 - 1e-9 < touch_scale(a, b) <= 1
        # A part in a million apart, and it is proven.
        assert disjoint(a, b.scaled(1 - 1e-6))


@NORMS
def test_the_order_never_matters_even_in_the_last_bits(norm):
    rng = np.random.default_rng(norm)
    answers = []
    for _ in range(40):
        d = int(rng.integers(1, 20))
        a, b = random_region(rng, d, norm), random_region(rng, d, norm)
        k = touch_scale(a, b)
        for ulps in range(-40, 40) if k else ():
            near = b.scaled(k * (1 - ulps * 2.0**-53))
            answers.append(disjoint(a, near))
            assert answers[-1] == disjoint(near, a)
    # The scan crosses the edge between proven and not.
    assert 0.1 < np.mean(answers) < 0.9


def test_the_worked_example():
    a = Region([0, 0], [1, 1 / 3], 1)
    assert distance(a, [0.4, 0.3]) == pytest.approx(0.1, rel=1e-12)
    assert distance(a, [0.4, 0.3]) <= 0.1
    # The paper's reduction projects in l2 and measures in l1, and would claim more.
    assert touch_by_linear_program(a, Region([0.4, 0.3], 1.0, 1)) == pytest.approx(0.1)


@NORMS
def test_identical_centres_and_points_inside(norm):
    a = Region([1.0, 2.0], [1.0, 3.0], norm)
    b = Region([1.0, 2.0], [1e-12, 1e12], norm)
    assert not disjoint(a, b)
    assert touch_scale(a, b) == touch_scale(b, a) == 0.0
    assert distance(a, a.center) == distance(a, [1.5, 2.0]) == 0.0
    # On the boundary is inside.
    assert distance(a, [2.0, 2.0]) == touch_scale(a, Region([2.0, 2.0], 1.0, norm)) == 0.0
    assert distance(a, [2.0 + 1e-9, 2.0]) == pytest.approx(1e-9, rel=1e-4)


@NORMS
def test_in_one_dimension_it_is_subtraction(norm):
    a, b = Region([1.0], [2.0], norm), Region([7.0], [0.5], norm)
    assert distance(a, [7.0]) == pytest.approx(4.0, rel=1e-14)
    assert touch_scale(a, b) == pytest.approx(8.0, rel=1e-14)
    assert touch_scale(b, a) == pytest.approx(2.75, rel=1e-14)
    assert disjoint(a, b)
    assert not disjoint(a, b.scaled(8.0))
    assert not disjoint(a, b.scaled(9.0))


@NORMS
@pytest.mark.parametrize("scale", [1e-290, 1e-150, 1e-30, 1e30, 1e150, 1e290])
def test_units_do_not_matter(norm, scale):
    rng = np.random.default_rng(norm)
    for _ in range(5):
        a, b = random_region(rng, 6, norm), random_region(rng, 6, norm)
        big_a = Region(a.center * scale, a.axes * scale, norm)
        big_b = Region(b.center * scale, b.axes * scale, norm)
        assert touch_scale(big_a, big_b) == pytest.approx(touch_scale(a, b), rel=1e-11)
        assert distance(big_a, big_b.center) == pytest.approx(scale * distance(a, b.center), rel=1e-11)
        assert disjoint(big_a, big_b) == disjoint(a, b)
        assert not disjoint(big_a, big_b.scaled(1.01 * max(touch_scale(a, b), 1.0)))


@NORMS
@pytest.mark.parametrize("reach", [0.9, 1.1, 1.4])
def test_squares_that_round_up_as_they_underflow_prove_nothing(norm, reach):
    for scale in [1.6e-162, *np.geomspace(1e-163, 1e-148, 60), *np.geomspace(1e-323, 1e-300, 20)]:
        for y in ([1.0, 0.0], [1.0, 0.6], [0.5, 0.5]):
            a, b = (Region(np.multiply(scale, place), reach / 2 * scale, norm) for place in ([0.0, 0.0], y))
            truth = exact_touch(a, b)
            assert disjoint(a, b) == disjoint(b, a) == (truth > 1)
            assert Fraction(touch_scale(a, b)) <= truth
            assert Fraction(distance(a, b.center)) <= exact_touch(a, Region(b.center, 1.0, norm))


@NORMS
def test_regions_of_very_different_size(norm):
    # (axes of a, axes of b, separation): apart or not, and how far b can grow.
    for small in (1e-12, 1e-60, 1e-150):
        a, b = Region([0.0, 0.0], 1.0, norm), Region([2.0, 0.0], small, norm)
        assert disjoint(a, b)
        assert disjoint(b, a)
        assert touch_scale(a, b) == pytest.approx(1 / small, rel=1e-12)
        # How far a can grow before it reaches b: up to b's size, which here is nothing beside 2.
        assert 2 * (1 - 2 * small) * (1 - 1e-12) <= touch_scale(b, a) <= 2
        assert not disjoint(a, Region([0.5, 0.0], small, norm))
    assert touch_scale(Region([0.0], [1e-200], norm), Region([1e200], [1e-200], norm)) > 1e300


@NORMS
@pytest.mark.parametrize("d", [2, 10, 50])
def test_axes_that_differ_by_twelve_orders(norm, d):
    rng = np.random.default_rng([norm, d])
    for _ in range(10):
        a = Region(np.zeros(d), 10.0 ** rng.uniform(-6, 6, d), norm)
        for axes_b in (10.0 ** rng.uniform(-6, 6, d), a.axes, a.axes[::-1], 1 / a.axes):
            b = Region(rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 3, d), axes_b, norm)
            check_pair(exact_touch(a, b), a, b, relative=1e-6)
    a = Region([0.0, 0.0], [1e12, 1.0], 1)
    assert distance(a, [3e11, 2.0]) == pytest.approx(1.3, rel=1e-12)
    assert distance(a, [2e12, 0.5]) == pytest.approx(1e12 + 0.5, rel=1e-12)


@NORMS
def test_extreme_axes_give_no_nan(norm):
    rng = np.random.default_rng(norm)
    for _ in range(60):
        d = int(rng.integers(1, 8))
        a = Region(rng.standard_normal(d) * 10.0 ** rng.uniform(-200, 200, d), 10.0 ** rng.uniform(-300, 299, d), norm)
        b = Region(rng.standard_normal(d) * 10.0 ** rng.uniform(-200, 200, d), 10.0 ** rng.uniform(-300, 299, d), norm)
        for value in (touch_scale(a, b), distance(a, b.center)):
            assert 0 <= value < math.inf
        truth = exact_touch(a, b) if norm == 1 else None
        if truth is not None:
            assert Fraction(touch_scale(a, b)) <= truth
            assert not disjoint(a, b) or truth > 1


@NORMS
def test_imagenet_size(norm):
    rng = np.random.default_rng(norm)
    d = 150_528
    a = Region(np.zeros(d), rng.uniform(0.5, 1.5, d), norm)
    point = rng.standard_normal((3, 224, 224)).ravel()
    b = Region(point, a.axes, norm)
    # Of one shape: b touches a where the scales add up to the gauge.
    k = a.gauge(point) - 1
    assert touch_scale(a, b) == pytest.approx(k, rel=1e-9)
    assert touch_scale(a, b) <= k * (1 + 1e-12)
    assert disjoint(a, b.scaled(k * (1 - 1e-9)))
    assert not disjoint(a, b.scaled(k * (1 + 1e-9)))
    other = Region(point, rng.uniform(0.5, 1.5, d), norm)
    edge = other.scaled(touch_scale(a, other))
    assert not disjoint(a, edge.scaled(1 + 1e-9))
    assert disjoint(a, edge.scaled(1 - 1e-6))
    assert disjoint(edge.scaled(1 - 1e-6), a)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (Region([0], 1, 2), Region([0], 1, 1), "b: expected the norm of a, 2, got 1"),
        (Region([0], 1, 2), Region([0, 0], 1, 2), r"b: expected the shape of a, \(1,\), got \(2,\)"),
        (Region([0], 1, 2), 3.0, "b: expected a Region, got float"),
        ("region", Region([0], 1, 2), "a: expected a Region or Regions, got str"),
        (Regions([[0.0]], [[1.0]], 1), Region([0], 1, 2), "b: expected the norm of a, 1, got 2"),
    ],
)
def test_bad_pairs(a, b, message):
    for function in (disjoint, touch_scale):
        with pytest.raises(ArgumentError, match=message):
            function(a, b)


def test_bad_points():
    with pytest.raises(ArgumentError, match=r"point: expected shape \(1,\), got \(2,\)"):
        distance(Region([0.0], 1, 2), [0.0, 0.0])
    with pytest.raises(ArgumentError, match=r"point: expected finite numbers.*got nan"):
        distance(Region([0.0], 1, 2), [np.nan])


def test_balls_that_touch_are_not_disjoint_because_their_distance_is_rounded_up():
    """In floats the sum of these 126 numbers is 6.9 roundoffs too large."""
    step = float.fromhex("0x1.3c1febd87054cp+0")
    radius = np.nextafter(126 * step / 2, 0)
    while 2 * Fraction(radius) < 126 * Fraction(step):
        radius = np.nextafter(radius, np.inf)
    a, b = Region(np.zeros(126), radius, 1), Region(np.full(126, step), radius, 1)
    assert not disjoint(a, b)
    assert touch_scale(a, b) <= 1
