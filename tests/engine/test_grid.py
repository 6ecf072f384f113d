import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import ndtri

import anisocert as ac
from anisocert.engine._identity import hash_of
from anisocert.engine.grid import GRID, MARGIN, check_grid, grain, multiples, thresholds
from anisocert.errors import AnisocertWarning, ArgumentError

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


def found(words, x, theta, h, base):
    row = np.array([np.int64(word - 2**64 if word >= 2**63 else word) for word in words])[None]
    x, theta = (np.full(len(words), np.float64(np.float32(value))) for value in (x, theta))
    return [int(k) for k in multiples(row, x, theta, h, base)[0]]


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
                at = int(mpmath.floor(border(side, x, theta, h, base) * 2**64 - 0.5))
                words += [word for word in range(at - 2, at + 4) if 0 <= word < 2**64]
        for word, k in zip(words, found(words, x, theta, h, base), strict=True):
            u = (word + mpmath.mpf(1) / 2) / 2**64
            assert border(k, x, theta, h, base) <= u < border(k + 1, x, theta, h, base), (word, k)


def test_borders_are_reached_where_float64_cannot_tell():
    """The words on both sides of a border fall into both cells, and float64 alone sees one number."""
    x, theta, h = 0.25, 0.5, 2.0**-12
    with mpmath.workdps(50):
        at = int(mpmath.floor(border(3000, x, theta, h, "normal") * 2**64 - 0.5))
    assert found([at, at + 1], x, theta, h, "normal") == [2999, 3000]
    assert float(at) == float(at + 1)


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
    k = multiples(words, np.array([x]), np.array([theta]), h, base)[:, 0].astype(int)
    cells = np.arange(k.min() - 3, k.max() + 4)
    with mpmath.workdps(30):
        p = np.array([float(border(c + 1, x, theta, h, base) - border(c, x, theta, h, base)) for c in cells.tolist()])
    large = p * draws > 10
    seen = np.array([(k == c).sum() for c in cells])
    observed, expected = np.append(seen[large], seen[~large].sum()), np.append(p[large], p[~large].sum()) * draws
    keep = expected > 0
    assert observed[~keep].sum() == 0
    assert stats.chisquare(observed[keep], expected[keep] * draws / expected[keep].sum()).pvalue > 1e-4


@pytest.mark.parametrize("base", ["normal", "uniform"])
@pytest.mark.parametrize(("x", "theta", "h"), [(0.1, 0.7, 0.5), (0.0, 3.3, 0.25), (7.77, 0.3, 1.0)])
def test_grain_bounds_the_total_variation(base, x, theta, h):
    middle = round(x / h)
    with mpmath.workdps(50):
        borders = [border(k, x, theta, h, base) for k in range(middle - 250, middle + 251)]
        drawn = [mpmath.ceil(p * 2**64 - 0.5) / 2**64 for p in borders]  # words below each border
        cells = zip(np.diff(borders), np.diff(drawn), strict=True)
        distance = sum(abs(true - one) for true, one in cells) / 2 + borders[0]
    bound = grain(np.full((1, 1), theta, np.float32), (1,), 1, h, base)
    assert 0 < distance <= bound < 100 * distance
    assert grain(np.full((1, 1), theta, np.float32), (3, 5), 7, h, base) == pytest.approx(105 * bound, rel=0.5)
    assert grain(np.full((1, 1), theta, np.float32), (1,), 1, 0.0, base) == 0


def test_grain_of_a_usual_run():
    """3e-7 for CIFAR-10 at n = 100,000 and sigma = 0.25."""
    assert 2.5e-7 < grain(np.full((1, 1, 1, 1), 0.25, np.float32), (3, 32, 32), 100_000, 2.0**-12, "normal") < 3.5e-7


def test_thresholds_are_the_exact_sums_of_weights():
    assert thresholds([1.0]).tolist() == []
    assert thresholds([0.5, 0.25, 0.25]).tolist() == [0, 2**62]
    assert thresholds([1 - 2.0**-53, 2.0**-53]).tolist() == [2**63 - 2**11]
    assert thresholds([1.0, 1e-300]).tolist() == [2**63 - 1]


@pytest.mark.parametrize("grid", [0.1, -1.0, 3.0, 2.0**-41, float("nan"), float("inf"), "1", True])
def test_bad_grid(grid):
    with pytest.raises(ArgumentError, match=r"expected grid a power of two .* got"):
        check_grid(grid)
    with pytest.raises(ArgumentError, match="expected grid"):
        ac.Numerics(grid=grid)


def test_a_grid_too_fine_for_the_inputs_is_said():
    x = torch.full((1, 4), 1e7)
    with pytest.raises(ArgumentError, match=r"within 2\*\*30 steps of the grid.*choose a larger grid"):
        ac.certify(Reveals().eval(), x, num_classes=2, smoothing=ac.Gaussian(1.0), numerics=ac.Numerics(grid=2.0**-20))


def test_noise_that_the_grid_rounds_away_is_said():
    x = torch.zeros(1, 4)
    with pytest.warns(AnisocertWarning, match=r"at least 64 steps of the grid.*choose a smaller grid"):
        ac.certify(Reveals().eval(), x, num_classes=2, smoothing=ac.Gaussian(0.001), plan=ac.Plan(n=100))


def test_the_hash_names_the_grid_and_without_one_is_as_before():
    model = torch.nn.Linear(2, 2).eval()
    hashes = {grid: ac.Network(model, 2, numerics=ac.Numerics("float32", grid=grid)).hash for grid in (0.0, 1.0, 0.5)}
    assert hashes[0.0] == hash_of(model, "float32")
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
    assert (certificate.grain > 0) == (grid > 0)
