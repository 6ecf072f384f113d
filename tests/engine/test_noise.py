from itertools import islice

import numpy as np
import pytest
import torch
from scipy import stats

from anisocert.engine import Stage, Stream, grid, noise
from anisocert.engine.grid import settled
from anisocert.engine.noise import HostNoise, noise_source, span

CPU = torch.device("cpu")
KINDS = {"normal": ("normal", (1.0,)), "uniform": ("uniform", (1.0,)), "mixture": ("normal", (0.3, 0.5, 0.2))}


GRIDS = [0.0, 2.0**-12]


def source(kind: str, shape: tuple[int, ...], slots: int = 1, grid: float = 0.0) -> HostNoise:
    base, weights = KINDS[kind]
    return noise_source(CPU, base, weights, slots, shape, grid)


def scales(kind: str, shape: tuple[int, ...]) -> torch.Tensor:
    count = len(KINDS[kind][1])
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(1)) + torch.arange(1.0, count + 1).view(
        -1, *(1 for _ in shape)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 7, 3), (1, 8, 8), (3, 32, 32)])
@pytest.mark.parametrize("grid", GRIDS)
def test_draws_do_not_depend_on_batching(kind, shape, grid):
    """To the last bit, also where a stretch of rows ends in the middle of a vector register."""
    votes, x, scale = 700, torch.rand(shape), scales(kind, shape)
    stream = Stream(3, Stage.ESTIMATE, 11)
    whole = source(kind, shape, grid=grid)
    whole.open([0], [stream], x[None], scale[None])
    expected = whole.noisy(np.zeros(votes, int), np.arange(votes))
    parts = source(kind, shape, 3, grid)
    parts.open([2], [stream], x[None], scale[None])
    parts.open([0], [Stream(3, Stage.ESTIMATE, 12)], x[None], scale[None])
    rng, done, other, rows = np.random.default_rng(0), 0, 0, []
    while done < votes:
        take, between, pad = min(int(rng.integers(1, 130)), votes - done), int(rng.integers(0, 5)), rng.integers(0, 3)
        slot = np.concatenate([np.full(pad, -1), np.full(between, 0), np.full(take, 2)])
        vote = np.concatenate([np.zeros(pad, int), np.arange(other, other + between), np.arange(done, done + take)])
        rows.append(parts.noisy(slot, vote)[pad + between :])
        done, other = done + take, other + between
    assert torch.equal(torch.cat(rows), expected)


def test_further_words_do_not_depend_on_batching(monkeypatch):
    """All first words are thrown away, so that further ones alone decide, as they do in 1e-16 of all draws."""
    monkeypatch.setattr(grid, "FAR", 2**63)
    monkeypatch.setattr(grid, "settled", lambda words, cells: settled(islice(words, 1, None), cells))

    def drawn(*sizes):
        one = source("normal", (3,), grid=2.0**-12)
        one.open([0], [Stream(3, Stage.ESTIMATE, 11)], torch.zeros(1, 3), torch.ones(1, 1, 3))
        ends = np.cumsum(sizes)
        return torch.cat(
            [one.noisy(np.zeros(n, int), np.arange(end - n, end)) for n, end in zip(sizes, ends, strict=True)]
        )

    whole = drawn(60)
    assert len(set(whole.flatten().tolist())) > 170
    monkeypatch.setattr(noise, "CHUNK", 12)
    assert torch.equal(drawn(1, 9, 50), whole)
    assert stats.kstest(whole.flatten().double().numpy(), stats.norm.cdf).pvalue > 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grid", GRIDS)
def test_distribution(kind, grid):
    shape, votes = (2, 3), 40_000
    drawn = source(kind, shape, grid=grid)
    drawn.open([0], [Stream(0, Stage.ESTIMATE, 0)], torch.zeros(shape)[None], scales(kind, shape)[None])
    eps = drawn.noisy(np.zeros(votes, int), np.arange(votes)).double().numpy()
    base, weights = KINDS[kind]
    for i, j in np.ndindex(shape):
        spread = scales(kind, shape)[:, i, j].numpy()
        if base == "uniform":
            cdf = stats.uniform(-spread[0], 2 * spread[0]).cdf
        else:
            cdf = lambda z, s=spread: sum(w * stats.norm.cdf(z / one) for w, one in zip(weights, s, strict=True))  # noqa: E731
        assert stats.kstest(eps[:, i, j], cdf).pvalue > 1e-4
    assert abs(np.corrcoef(eps.reshape(votes, -1).T) - np.eye(6)).max() < 0.03


@pytest.mark.parametrize("grid", GRIDS)
def test_one_component_per_vote_not_per_coordinate(grid):
    shape = (50,)
    drawn = source("mixture", shape, grid=grid)
    drawn.open(
        [0],
        [Stream(0, Stage.ESTIMATE, 0)],
        torch.zeros(shape)[None],
        torch.tensor([1.0, 100.0, 10000.0]).view(3, 1)[None],
    )
    spread = drawn.noisy(np.zeros(3000, int), np.arange(3000)).std(1).log10().div(2).round()
    assert set(spread.tolist()) == {0.0, 1.0, 2.0}
    shares = np.bincount(spread.long(), minlength=3) / 3000
    assert np.abs(shares - KINDS["mixture"][1]).max() < 0.04


@pytest.mark.parametrize("grid", [*GRIDS, 2.0**-5])
def test_noise_is_float32_and_centred_at_x(grid):
    x = torch.tensor([10.0, -20.0])
    drawn = source("uniform", (2,), grid=grid)
    drawn.open([0], [Stream(0, Stage.ESTIMATE, 0)], x[None], torch.tensor([[0.5, 0.25]])[None])
    rows = drawn.noisy(np.zeros(1000, int), np.arange(1000))
    assert rows.dtype == torch.float32
    assert ((rows - x).abs() <= torch.tensor([0.5, 0.25]) * (1 + 1e-5) + grid / 2).all()
    if grid:
        assert torch.equal(rows, (rows / grid).round() * grid)


def test_votes_out_of_order_are_refused():
    drawn = source("normal", (2,))
    drawn.open([0], [Stream(0, Stage.ESTIMATE, 0)], torch.zeros(2)[None], torch.ones(1, 1)[None])
    with pytest.raises(AssertionError, match="in order"):
        drawn.noisy(np.zeros(3, int), np.arange(1, 4))


def test_positions_that_follow_one_another_are_a_slice():
    x = torch.arange(10)
    for places in (
        [3, 4, 5],
        [5],
        [],
        [5, 4],
        [3, 5, 4],
        [4, 6],
        [3, 3],
        [-1],
        [-2, -1],
        range(2, 5),
        torch.arange(1, 4),
    ):
        assert torch.equal(x[span(places)], x[[int(i) for i in places]])
    assert [span(places) for places in ([3, 4, 5], [5, 4], [])] == [slice(3, 6), [5, 4], slice(0, 0)]
