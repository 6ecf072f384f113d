from itertools import islice

import numpy as np
import pytest
import torch
from scipy.special import ndtri

from anisocert import Gaussian, GaussianMixture, Numerics, Uniform
from anisocert.engine import Network, Query, Stage, Stream, count_votes, grid
from anisocert.engine.grid import MARGIN, settled
from anisocert.engine.noise import noise_source

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402

from anisocert.engine.grid_cuda import MOST_LISTED, QUICK  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="the Triton kernel needs a CUDA device")

KINDS = {"normal": ("normal", (1.0,)), "uniform": ("uniform", (1.0,)), "mixture": ("normal", (0.3, 0.5, 0.2))}


def opened(kind: str, shape: tuple[int, ...], grid: float, width: float = 1.0):
    base, weights = KINDS[kind]
    source = noise_source(torch.device("cuda", 0), base, weights, 2, shape, grid)
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0)).cuda()
    scales = torch.rand(len(weights), *shape, generator=torch.Generator().manual_seed(1)).cuda() + 0.1
    source.open([1], [Stream(3, Stage.ESTIMATE, 11)], x[None], width * scales[None])
    return source


def exact(source, slot, vote):
    """Whole rows as the host draws them."""
    rows = [source._exactly(int(s), int(v), np.arange(source.d)) for s, v in zip(slot, vote, strict=True)]
    return torch.from_numpy(np.stack(rows)).view(-1, *source.shape).cuda()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 7, 3), (3, 32, 32), (3, 64, 65)])
@pytest.mark.parametrize("grid", [2.0**-26, 2.0**-12, 1.0, 64.0])
def test_device_and_host_find_the_same_multiples(kind, shape, grid):
    source, votes = opened(kind, shape, grid), np.array([0, 1, 2, 77, 2**31 - 1])
    found = source.noisy(np.ones(5, int), votes)
    expected, known = exact(source, np.ones(5, int), votes), ~found.isnan()
    assert torch.equal(found[known], expected[known])
    assert torch.equal(source.unsettled, found.flatten(1).isnan().any(1))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_doubt_are_marked(kind):
    """A grid so fine that float64 cannot settle a share of the rows, which are right once the host has."""
    source = opened(kind, (3, 32, 32), 2.0**-26)
    found = source.noisy(np.ones(2000, int), np.arange(2000))
    share = float(source.unsettled.double().mean())
    assert 0.005 < share < 0.6
    at = np.flatnonzero(source.unsettled.cpu().numpy())
    assert 1 <= float(found[at].isnan().flatten(1).sum(1).double().mean()) < 3, "few numbers of a row are in doubt"
    source.settle(found, at, np.ones(2000, int), np.arange(2000))
    assert torch.equal(found[at[:20]], exact(source, np.ones(20, int), at[:20]))
    assert not bool(found.isnan().any())


@pytest.mark.parametrize(("kind", "listed"), [("normal", 0.0), ("normal", 1.0), ("uniform", 0.0)])
def test_zero_has_one_sign(kind, listed):
    """By each kernel: f(x) = [1 / x > 0] is one class within the cell of 0."""
    source = noise_source(torch.device("cuda", 0), KINDS[kind][0], (1.0,), 1, (64,), 1.0)
    source.open([0], [Stream(3, Stage.ESTIMATE, 11)], torch.zeros(1, 64), torch.full((1, 1, 64), 0.2))
    source._listed = listed
    found = source.noisy(np.zeros(500, int), np.arange(500))
    assert int((found == 0).sum()) > 25_000
    assert not bool(torch.signbit(found[found == 0]).any())


def test_a_row_with_more_doubts_than_its_list_holds_is_marked():
    """And reads no other row's list: rows that it was right about before stay as they are."""
    source = opened("normal", (3, 32, 32), 2.0**-12)
    right = source.noisy(np.ones(8, int), np.arange(8))
    source._listed, source.grid = 0.0, 2.0**-24  # float32 comes first, and doubts nearly everything
    doubted = source.noisy(np.ones(8, int), np.arange(8))
    assert bool(source.unsettled.all())
    source.settle(doubted, np.arange(8), np.ones(8, int), np.arange(8))
    assert torch.equal(doubted, exact(source, np.ones(8, int), np.arange(8)))
    source.grid = 2.0**-12
    assert torch.equal(source.noisy(np.ones(8, int), np.arange(8)), right)


def test_further_words_are_the_streams_own(monkeypatch):
    """On the host, which draws rows in doubt again: the first words are thrown away, so that further ones decide."""
    source = opened("normal", (5,), 2.0**-12)
    monkeypatch.setattr(grid, "FAR", 2**63)
    monkeypatch.setattr(grid, "settled", lambda words, cells: settled(islice(words, 1, None), cells))
    found = exact(source, np.ones(3, int), [0, 7, 2**31 - 1]).double().cpu().numpy()
    x, scale = (values[1].double().cpu().numpy().reshape(-1) for values in (source.x, source.scales))
    further = Stream(3, Stage.ESTIMATE, 11).further
    u = [[next(further(vote, i)) * 2.0**-64 for i in range(5)] for vote in (0, 7, 2**31 - 1)]
    assert np.abs(found - x - scale * ndtri(u)).max() <= 2.0**-13 * (1 + 1e-6)


def test_padding_is_never_in_doubt():
    source = opened("normal", (4,), 2.0**-12)
    source.noisy(np.full(64, -1), np.arange(64))
    assert not bool(source.unsettled.any())


def test_draws_do_not_depend_on_batching():
    source = opened("mixture", (3, 32, 32), 2.0**-12)
    whole = source.noisy(np.ones(300, int), np.arange(300))
    order = np.random.default_rng(0).permutation(300)
    assert torch.equal(source.noisy(np.ones(300, int), order), whole[torch.from_numpy(order).cuda()])


@pytest.mark.parametrize("noise", [Gaussian(0.5), Uniform(1.0), GaussianMixture((0.3, 0.7), (0.5, 1.5))])
def test_votes_withheld_are_counted_in_the_end(noise):
    """Counts by the device, with many rows in doubt, against votes on rows that the host drew."""

    class Last(torch.nn.Module):
        def forward(self, x):
            k = (x.flatten(1).double() * 2.0**26).round().long().sum(1)
            return torch.nn.functional.one_hot(k % 4, 4).float()

    grid, n, shape = 2.0**-26, 3000, (3, 16, 16)
    network = Network(Last().eval(), 4, "cuda", Numerics("float32", False, 320, grid))
    x = torch.rand(1, *shape, generator=torch.Generator().manual_seed(0)).round(decimals=1).cuda()
    scales = noise.scales(torch.from_numpy(np.array(noise.theta)).reshape(1, 1, 1, 1).cuda())
    (tally,) = count_votes(Query(network, noise, x, [5], seed=1), scales, Stage.ESTIMATE, [n])
    source = noise_source(network.device, noise.base, noise.weights, 1, shape, grid)
    source.open([0], [Stream(1, Stage.ESTIMATE, 5)], x, scales)
    source.noisy(np.zeros(n, int), np.arange(n))
    assert 3 < int(source.unsettled.sum()) < n / 2
    rows = exact(source, np.zeros(n, int), np.arange(n))
    expected = torch.bincount(Last()(rows).argmax(1), minlength=4).cpu().numpy()
    assert tally.votes == n
    assert np.array_equal(tally.counts, expected)


@triton.jit
def _quantile(p, out, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out + at, libdevice.normcdfinv(tl.load(p + at)))


def quantile(p):
    out = torch.empty_like(p)
    _quantile[(len(p) // 1024,)](p, out, WIDTH=1024)
    return out.double()


def test_error_of_the_quantile_is_far_below_the_margin():
    """Beside Cephes', which test_grid compares with exact values; over the whole range, most of it in the tails."""
    count, rng = 1 << 22, np.random.default_rng(0)
    p = np.concatenate([rng.random(count // 2) / 2, 2.0 ** -rng.uniform(1, 65, count // 2)])
    exact = ndtri(p)
    worst = float((np.abs(quantile(torch.from_numpy(p).cuda()).cpu().numpy() - exact) / (1 + np.abs(exact))).max())
    assert worst < MARGIN / 32, f"2^{np.log2(worst):.2f}"


def test_error_of_the_float32_quantile_at_every_float32():
    first, last = (int(np.float32(p).view(np.int32)) for p in (2.0**-9, 0.5))
    p = torch.arange(first, last, dtype=torch.int32, device="cuda").view(torch.float32)
    assert len(p) == 1 << 26  # eight octaves
    exact = quantile(p.double())
    worst = float(((quantile(p) - exact).abs() / (1 + exact.abs())).max())
    assert worst < QUICK / 4, f"2^{np.log2(worst):.2f}"


@pytest.mark.parametrize("width", [1.0, 12.0])
def test_float32_and_float64_find_the_same_multiples(width):
    """Noise narrow enough for float32 to come first, and once more with float64 alone."""
    source, votes = opened("normal", (3, 32, 32), 2.0**-12, width), np.arange(3000)
    assert source._listed < MOST_LISTED
    found = source.noisy(np.ones(3000, int), votes)
    source._listed = 1.0
    again = source.noisy(np.ones(3000, int), votes)
    known = ~(found.isnan() | again.isnan())
    assert int((~known).sum()) < 10
    assert torch.equal(found[known], again[known])
