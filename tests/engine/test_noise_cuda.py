import numpy as np
import pytest
import torch
from scipy import stats

from anisocert.engine import Stage, Stream
from anisocert.engine.noise import noise_source

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="the Triton kernel needs a CUDA device")

KINDS = {"normal": ("normal", (1.0,)), "uniform": ("uniform", (1.0,)), "mixture": ("normal", (0.3, 0.5, 0.2))}


def source(kind: str, shape: tuple[int, ...], slots: int = 1):
    base, weights = KINDS[kind]
    return noise_source(torch.device("cuda", 0), base, weights, slots, shape)


def scales(kind: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.arange(1.0, len(KINDS[kind][1]) + 1, device="cuda").view(-1, *(1 for _ in shape)).expand(-1, *shape)


def draw(kind, shape, stream, votes):
    drawn = source(kind, shape)
    drawn.open([0], [stream], torch.zeros(shape, device="cuda")[None], scales(kind, shape)[None])
    return drawn.noisy(np.zeros(len(votes), int), np.asarray(votes))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 7, 3), (3, 32, 32), (3, 64, 65)])
def test_draws_do_not_depend_on_batching(kind, shape):
    votes, stream = 700, Stream(3, Stage.ESTIMATE, 11)
    expected = draw(kind, shape, stream, np.arange(votes))
    assert expected.shape == (votes, *shape)
    assert expected.dtype == torch.float32
    parts = source(kind, shape, slots=3)
    x = torch.zeros(shape, device="cuda")
    parts.open([2], [stream], x[None], scales(kind, shape)[None])
    parts.open([0], [Stream(3, Stage.ESTIMATE, 12)], x[None], scales(kind, shape)[None])
    rng, order = np.random.default_rng(0), np.random.default_rng(1).permutation(votes)
    for chosen in np.array_split(order, 9):
        slot = np.full(3 * len(chosen), -1)
        slot[::3] = 2
        slot[1::3] = 0
        vote = rng.integers(0, votes, len(slot))
        vote[::3] = chosen
        rows = parts.noisy(slot, vote)
        assert torch.equal(rows[::3], expected[torch.from_numpy(chosen).cuda()])
        assert not torch.equal(rows[1::3], expected[torch.from_numpy(vote[1::3]).cuda()])


@pytest.mark.parametrize("kind", KINDS)
def test_distribution(kind):
    shape, votes = (2, 3), 200_000
    eps = draw(kind, shape, Stream(0, Stage.ESTIMATE, 0), np.arange(votes)).double().cpu().numpy()
    base, weights = KINDS[kind]
    spread = scales(kind, (1,)).flatten().tolist()

    def cdf(z):
        if base == "uniform":
            return np.clip((z + 1) / 2, 0, 1)
        return sum(w * stats.norm.cdf(z / s) for w, s in zip(weights, spread, strict=True))

    for i, j in np.ndindex(shape):
        assert stats.kstest(eps[:, i, j], cdf).pvalue > 1e-4
    flat = eps.reshape(votes, -1)
    if kind != "mixture":  # the coordinates of a mixture share its component
        assert abs(np.corrcoef(flat**2, rowvar=False) - np.eye(6)).max() < 0.015
    assert abs(np.corrcoef(flat, rowvar=False) - np.eye(6)).max() < 0.015
    assert abs(np.corrcoef(flat[:-1, 0], flat[1:, 0])[0, 1]) < 0.015


def test_tails():
    eps = draw("normal", (3, 32, 32), Stream(1, Stage.ESTIMATE, 0), np.arange(20_000)).flatten()
    for limit in (3.0, 4.0, 5.0):
        expected = 2 * stats.norm.sf(limit) * eps.numel()
        assert abs(int((eps.abs() > limit).sum()) - expected) < 6 * np.sqrt(expected)
    assert bool(eps.isfinite().all())


def test_streams_share_no_noise():
    """Float32 values coincide now and then; whole rows never do."""
    streams = [
        Stream(seed, stage, number)
        for seed in (0, 1, 2**63, 2**64 - 1)
        for stage in Stage
        for number in (0, 1, 2**31, 2**32, 2**32 + 1, 2**60 - 1)
    ]
    rows = torch.cat([draw("normal", (16,), stream, np.arange(50)) for stream in streams])
    assert len(torch.unique(rows, dim=0)) == len(rows)


def test_components_have_their_weights():
    drawn = source("mixture", (50,))
    x, scale = torch.zeros(50, device="cuda"), torch.tensor([1.0, 100.0, 10000.0], device="cuda").view(3, 1)
    drawn.open([0], [Stream(0, Stage.ESTIMATE, 0)], x[None], scale[None])
    spread = drawn.noisy(np.zeros(30_000, int), np.arange(30_000)).std(1).log10().div(2).round().long().cpu().numpy()
    assert np.abs(np.bincount(spread, minlength=3) / 30_000 - KINDS["mixture"][1]).max() < 0.015


def test_padding_has_no_noise():
    drawn = source("normal", (4,))
    drawn.open(
        [0], [Stream(0, Stage.ESTIMATE, 0)], torch.full((4,), 2.0, device="cuda")[None], scales("normal", (4,))[None]
    )
    rows = drawn.noisy(np.array([-1, 0, -1]), np.array([0, 0, 5]))
    assert torch.equal(rows[0], torch.full((4,), 2.0, device="cuda"))
    assert torch.equal(rows[2], rows[0])
    assert not torch.equal(rows[1], rows[0])
