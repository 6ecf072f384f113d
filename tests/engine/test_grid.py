from collections import Counter
from dataclasses import astuple
from fractions import Fraction
from itertools import chain, islice

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import ndtri

import anisocert as ac
from anisocert.engine import Stage, Stream, grid
from anisocert.engine.grid import FAR, GRID, MARGIN, Cells, check_grid, multiples, settled, thresholds
from anisocert.engine.identity import hash_of
from anisocert.engine.noise import noise_source
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.smoothing.mixture import DRAWN

EXTREMES = [  # x, theta, h
    (0.3, 0.25, 2.0**-12),
    (0.0, 1.0, 1.0),
    (-0.75, 1e-6, 2.0**-12),  # noise far inside one cell
    (0.5 * 2.0**-12, 1e-9, 2.0**-12),  # and around a border
    (1000.1, 8.0, 2.0**-12),
    (255.0, 64.0, 2.0**-20),
    (1e-30, 0.25, 2.0**-30),
    (3.0, 100.0, 2.0**10),
]


def cdf(t, base):
    return mpmath.ncdf(t) if base == "normal" else min(max((t + 1) / 2, mpmath.mpf(0)), mpmath.mpf(1))


def border(k, x, theta, h, base):
    """P(x + theta eps < (k - 1/2) h), in 50 digits."""
    return cdf(((k - mpmath.mpf(1) / 2) * h - mpmath.mpf(x)) / mpmath.mpf(theta), base)


further = Stream(0, Stage.ESTIMATE, 0).further


def found(words, x, theta, h, base):
    row = np.array([np.int64(word - 2**64 if word >= 2**63 else word) for word in words])[None]
    x, theta = (np.full(len(words), np.float64(np.float32(value))) for value in (x, theta))
    return [int(k) for k in multiples(row, x, theta, h, base, further)[0]]


@pytest.mark.parametrize("base", ["normal", "uniform"])
@pytest.mark.parametrize(("x", "theta", "h"), EXTREMES)
def test_every_word_lies_in_the_cell_that_it_is_given(base, x, theta, h):
    rng = np.random.default_rng(0)
    words = [0, 1, 2, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    words += [int(word) for word in rng.integers(0, 2**64, 20, dtype=np.uint64)]
    words += [int(word) >> shift for shift in (20, 40, 60) for word in rng.integers(0, 2**64, 5, dtype=np.uint64)]
    x, theta = float(np.float32(x)), float(np.float32(theta))
    with mpmath.workdps(50):
        for k in found(words[7:15], x, theta, h, base):  # words at and next to the borders of their cells
            for side in (k, k + 1):
                at = int(mpmath.floor(border(side, x, theta, h, base) * 2**64))
                words += [word for word in range(at - 2, at + 3) if 0 <= word < 2**64]
    with mpmath.workdps(100):
        for i, (word, k) in enumerate(zip(words, found(words, x, theta, h, base), strict=True)):
            u = sum(mpmath.mpf(one) / 2 ** (64 * j) for j, one in enumerate([word, *islice(further(0, i), 3)], 1))
            assert border(k, x, theta, h, base) <= u < border(k + 1, x, theta, h, base), (word, k)


@pytest.mark.parametrize("base", ["normal", "uniform"])
def test_further_words_decide_where_a_border_lies_inside_a_word(base):
    """The words before and after it fall into its two cells, and float64 alone sees one number."""
    x, theta, h = np.array([0.25]), np.array([0.3]), 2.0**-12
    with mpmath.workdps(100):
        exact = border(1500, x[0], theta[0], h, base)
        digits = [int(mpmath.floor(exact * 2 ** (64 * i))) % 2**64 for i in (1, 2, 3, 4)]
    at, *more = digits
    assert float(at - 1) == float(at + 1)

    def k(word, *asked):
        words = np.array([[word]], np.uint64).view(np.int64)
        return multiples(words, x, theta, h, base, lambda row, i: iter(asked))[0, 0]

    assert [k(at - 1), k(at + 1)] == [1499, 1500]
    for i, one in enumerate(more):
        assert [k(at, *more[:i], one - 1), k(at, *more[:i], one + 1)] == [1499, 1500]


def test_the_quantiles_error_is_far_below_the_margin():
    rng = np.random.default_rng(0)
    joints = np.array([np.exp(-2), np.exp(-32), 0.5])  # where Cephes changes from one formula to another
    p = np.concatenate([rng.random(700) / 2, 2.0 ** -rng.uniform(1, 65, 700), joints, joints * (1 - 1e-15), [2.0**-65]])
    with mpmath.workdps(50):
        for one, z in zip(p.tolist(), ndtri(p).tolist(), strict=True):
            error = abs(mpmath.ncdf(z) - one) / mpmath.npdf(z)
            assert error < MARGIN / 64 * (1 + abs(z))


@pytest.mark.parametrize("base", ["normal", "uniform"])
def test_cells_have_their_probabilities(base):
    x, theta, h, draws = 0.1, 0.7, 0.25, 400_000
    words = np.random.default_rng(1).integers(-(2**63), 2**63, (draws, 1))
    k = multiples(words, np.array([x]), np.array([theta]), h, base, further)[:, 0].astype(int)
    cells = np.arange(k.min() - 3, k.max() + 4)
    with mpmath.workdps(30):
        p = np.array([float(border(c + 1, x, theta, h, base) - border(c, x, theta, h, base)) for c in cells.tolist()])
    large = p * draws > 10
    seen = np.array([(k == c).sum() for c in cells])
    observed, expected = np.append(seen[large], seen[~large].sum()), np.append(p[large], p[~large].sum()) * draws
    keep = expected > 0
    assert observed[~keep].sum() == 0
    assert stats.chisquare(observed[keep], expected[keep] * draws / expected[keep].sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    "cells",
    [
        Cells(0.1, 0.7, 0.5, "normal"), Cells(0.0, 0.3, 1.0, "normal"), Cells(0.5, 1.0, 1.0, "normal"),
        Cells(7.77, 0.3, 0.1, "uniform"), Cells(0.25, 1.0, 0.5, "uniform"),
    ],
)  # fmt: skip
def test_words_of_six_bits_give_every_cell_its_exact_probability(cells):
    """All words are tried: what some of them decide is never more than a cell has, and what they leave open shrinks."""
    decided, waiting, bits = Counter(), [0], 6
    for count in (1, 2, 3):
        begun, waiting = waiting, []
        size = 2 ** (bits * count)
        for number in (first << bits | word for first in begun for word in range(2**bits)):
            words = [number >> bits * i & (2**bits - 1) for i in reversed(range(count))]
            try:
                decided[settled(iter(words), cells, bits)] += Fraction(1, size)
            except StopIteration:  # it asks for further words
                waiting.append(number)
        left = Fraction(len(waiting), size)
        assert sum(decided.values()) + left == 1
        with mpmath.workdps(50):
            borders = [border(k, *astuple(cells)) * size for k in range(-60, 150)]
            assert waiting == sorted({int(one) for one in borders if one % 1})  # exactly where a border lies inside
            for k in range(min(decided) - 2, max(decided) + 3):
                low, high = (border(side, *astuple(cells)) for side in (k, k + 1))
                exact, tiny = high - low, mpmath.mpf(10) ** -40
                so_far = mpmath.mpf(decided[k].numerator) / decided[k].denominator
                assert so_far <= exact + tiny
                assert exact <= so_far + mpmath.mpf(left.numerator) / left.denominator + tiny


ONES = 2**64 - 1
TAILS = [
    [0, 5], [0, 0, 2**63], [0, ONES], [1, 0], [1, ONES], [5, 7], [1000, 1], [2**40, 3],
    [ONES, 0], [ONES, ONES, 2**63], [ONES, ONES - 5], [ONES - 1, 0], [ONES - 1000, 1], [2**63, 0], [2**63 - 1, ONES],
]  # fmt: skip


@pytest.mark.parametrize("base", ["normal", "uniform"])
@pytest.mark.parametrize(("x", "theta", "h"), [*EXTREMES, (0.1, 900.0, 2.0**-20)])
def test_ends_of_the_tails(base, x, theta, h):
    for words in TAILS:
        row = np.array([words[0]], np.uint64).view(np.int64)[None]
        point, scale = (np.array([np.float64(np.float32(value))]) for value in (x, theta))
        asked = chain(words[1:], [2**62] * 4)
        (k,) = multiples(row, point, scale, h, base, lambda row, i, asked=asked: asked)[0]
        with mpmath.workdps(200):
            u = sum(mpmath.mpf(word) / 2 ** (64 * (i + 1)) for i, word in enumerate([*words, *[2**62] * 4]))
            low, high = (border(int(k) + side, point[0], scale[0], h, base) for side in (0, 1))
            assert low <= u < high, words


def test_noise_beyond_the_first_words_reach_is_drawn():
    """2^-128, with 128 bits: some 13 standard deviations, which U of 64 bits never has."""
    (k,) = multiples(np.zeros((1, 1), np.int64), np.zeros(1), np.ones(1), 2.0**-6, "normal", lambda *_: iter([1, 5]))[0]
    assert k * 2.0**-6 == pytest.approx(float(ndtri(2.0**-128)), abs=2.0**-7)


def test_an_interval_reaches_less_far_than_is_allowed():
    """Quantiles 2^-65 to either side of a tail: in `multiples` from 2^-20 on, in CUDA's kernel from 2^-58 on."""
    with mpmath.workdps(50):
        width = mpmath.mpf(2) ** -65
        for z in np.concatenate([np.linspace(-8.8, 0, 300), -ndtri(1 - 2.0 ** -np.arange(1, 20))]).tolist():
            tail = mpmath.ncdf(z)
            if tail < mpmath.mpf(2) ** -58:
                continue
            reaches = [3 * width / 2 / tail]
            if tail >= mpmath.mpf(FAR) / 2**64:
                reaches.append(mpmath.mpf(MARGIN) / 50 * (1 + abs(z)))
            for reach in reaches:
                assert mpmath.ncdf(z - reach) < tail - width
                assert mpmath.ncdf(z + reach) > tail + width


def test_float64_finds_what_exact_arithmetic_does(monkeypatch):
    words = np.random.default_rng(3).integers(-(2**63), 2**63, (4, 30))
    given = np.linspace(0, 1, 30), np.linspace(0.1, 2, 30), 2.0**-12, "normal", further
    quick = multiples(words, *given)
    asked = []
    monkeypatch.setattr(grid, "FAR", 2**63)
    monkeypatch.setattr(grid, "settled", lambda words, cells: asked.append(cells) or settled(words, cells))
    assert np.array_equal(multiples(words, *given), quick)
    assert len(asked) == words.size


def test_zero_has_one_sign():
    """f(x) = [1 / x > 0] is one class within the cell of 0."""
    words = np.random.default_rng(0).integers(-(2**63), 2**63, (50, 4))
    k = multiples(words, np.zeros(4), np.full(4, 0.3), 1.0, "normal", further)
    assert (k == 0).sum() > 100
    assert not np.signbit(k[k == 0]).any()
    source = noise_source(torch.device("cpu"), "uniform", (1.0,), 1, (4,), 1.0)
    source.open([0], [Stream(0, Stage.ESTIMATE, 0)], torch.zeros(1, 4), torch.full((1, 1, 4), 0.4))
    assert (1 / source.noisy(np.zeros(50, int), np.arange(50)) > 0).all()


def test_thresholds_are_the_exact_sums_of_weights():
    assert thresholds([1.0]).tolist() == []
    assert thresholds([0.5, 0.25, 0.25]).tolist() == [0, 2**62]
    assert thresholds([1 - 2.0**-53, 2.0**-53]).tolist() == [2**63 - 2**11]
    assert thresholds([1.0, 1e-300]).tolist() == [2**63 - 1]


@pytest.mark.parametrize(
    "weights", [[0.3, 0.7], [0.1] * 10, [1e-12, 1 - 1e-12], [0.5, 0.5 - 9e-10], [0.5, 0.5 + 9e-10, 1e-300], [1 / 3] * 3]
)
def test_no_component_is_drawn_more_often_than_its_mixtures_region_allows(weights):
    ac.GaussianMixture(weights, [1.0] * len(weights))  # such weights are allowed
    edges = [-(2**63), *thresholds(weights).tolist(), 2**63]
    for low, high, weight in zip(edges, edges[1:], weights, strict=False):
        assert 0 <= Fraction(high - low, 2**64) <= Fraction(weight) + Fraction(DRAWN) / 2


@pytest.mark.parametrize("grid", [0.1, -1.0, 3.0, 2.0**-41, float("nan"), float("inf"), "1", True])
def test_bad_grid(grid):
    with pytest.raises(ArgumentError, match=r"expected grid a power of two .* got"):
        check_grid(grid)
    with pytest.raises(ArgumentError, match="expected grid"):
        ac.Numerics(grid=grid)


def test_a_grid_too_fine_for_the_inputs_is_said():
    x = torch.full((1, 4), 1e7)
    with pytest.raises(ArgumentError, match=r"within 2\*\*30 steps .*choose a larger one, as in --grid .*standardise"):
        ac.certify(Reveals().eval(), x, num_classes=2, smoothing=ac.Gaussian(1.0), numerics=ac.Numerics(grid=2.0**-20))


def test_noise_that_the_grid_rounds_away_is_said():
    x = torch.zeros(1, 4)
    with pytest.warns(
        AnisocertWarning, match=r"at least 64 steps of the grid.*choose a smaller one, as in --grid 1\.5\S+ "
    ):
        ac.certify(Reveals().eval(), x, num_classes=2, smoothing=ac.Gaussian(0.001), plan=ac.Plan(n=100))


@pytest.mark.parametrize("method", [ac.Cascade(), ac.Selected(), ac.TwoStep(), ac.Average(0.001)])
def test_noise_is_that_of_a_methods_own_codes_or_theta(method):
    model = Reveals() if method.name == "average" else ac.Coded(Reveals(), Reveals(), ac.Codebook([0.5, 0.001], 0.5))
    with pytest.warns(AnisocertWarning, match=r"at least 64 steps of the grid, 0\.015625, got 0\.001"):
        ac.certify(
            model.eval(), torch.zeros(1, 4), num_classes=2, smoothing=ac.Gaussian(0.5), method=method,
            plan=ac.Plan(n=100),
        )  # fmt: skip


def test_the_hash_names_the_grid_and_without_one_is_as_before():
    model = torch.nn.Linear(2, 2).eval()
    hashes = {grid: ac.Network(model, 2, numerics=ac.Numerics("float32", grid=grid)).hash for grid in (0.0, 1.0, 0.5)}
    assert hashes[0.0] == hash_of(model, "float32", 0.0)
    assert len(set(hashes.values())) == 3
    assert ac.Network(model, 2).numerics.grid == GRID


class Reveals(torch.nn.Module):
    """1 where a number is no multiple of 2^-28.

    A sum of 2^-4 and a float32 is always one, whatever was drawn; a float32 below 2^-5 alone seldom is.
    """

    def forward(self, x):
        fine = x * 2.0**28
        reveals = (fine != fine.round()).any(1).float()
        return torch.stack([1 - reveals, reveals], 1)


@pytest.mark.parametrize("grid", [0.0, 2.0**-12])
def test_sums_that_reveal_the_input(grid):
    """A network that sees which sums a machine can reach breaks certificates of float32 noise, none on a grid."""
    x, moved = torch.zeros(1, 256), torch.full((1, 256), 2.0**-4)
    given = {"num_classes": 2, "smoothing": ac.Gaussian(1.0), "numerics": ac.Numerics("float32", False, grid=grid)}
    plan = ac.Plan(n=2000)
    (certificate,) = ac.certify(Reveals().eval(), x, plan=plan, **given)
    (answer,) = ac.predict(Reveals().eval(), moved, plan=plan, **given)
    assert certificate.region.contains(moved[0].numpy())
    assert (answer != certificate.prediction) == (grid == 0)
