import logging
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anisocert import Gaussian, GaussianMixture, Numerics, Plan, Uniform
from anisocert.engine import Network, Query, Stage, Tally, count_votes, top_and_runner_up, votes
from anisocert.errors import ModelError

FLOAT32 = Numerics("float32", compile=False, rows=160)
SHAPE = (1, 8, 8)
NOISES = {
    "gaussian": Gaussian(0.7),
    "uniform": Uniform(np.linspace(0.1, 1.5, 64).reshape(SHAPE)),
    "mixture": GaussianMixture([0.4, 0.6], [0.2, 1.0]),
}


def images(count: int) -> Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(5))


def tallies(
    network, x, ids, noise="gaussian", looks=(200,), seed=0, stage=Stage.ESTIMATE, **options
) -> dict[int, Tally]:
    """By id."""
    smoothing = NOISES[noise]
    theta = torch.from_numpy(smoothing.theta.copy()).expand(len(x), *(smoothing.theta.shape or (1, 1, 1)))
    found = count_votes(Query(network, smoothing, x, ids, seed), smoothing.scales(theta), stage, looks, **options)
    return {ids[tally.position]: tally for tally in found}


def counts(found: dict[int, Tally]) -> dict[int, list[int]]:
    return {number: tally.counts.tolist() for number, tally in found.items()}


def pseudo_stop(looks):
    """Stops inputs at looks that depend on their counts alone."""
    return lambda position, look, counts: counts[:, 0] * 7919 % (look + 3) == 0


def test_every_look_is_remembered_whether_or_not_somebody_looked(small_network):
    network, looks = Network(small_network, 5, numerics=FLOAT32), (32, 50, 120, 333)
    ids, x = list(range(40)), images(40)
    seen = np.zeros((40, 4, 5), int)

    def look_on(position, look, counts):
        seen[position, look] = counts
        return np.zeros(len(position), bool)

    watched = tallies(network, x, ids, looks=looks, stop=look_on)
    alone = tallies(network, x, ids, looks=looks)
    for i in ids:
        assert np.array_equal(watched[i].history, seen[i])
        assert np.array_equal(alone[i].history, seen[i])
        assert seen[i].sum(1).tolist() == list(looks)


def test_many_small_counts_leave_little_padding(small_network):
    rows = []

    def spy(x):
        rows.append(len(x))
        return small_network(x)

    network = Network(spy, 5, model_id="spy", numerics=Numerics("float32", compile=False, rows=800))
    tallies(network, images(1), [0], looks=(64,))  # by then it is settled, and tried on such inputs
    rows.clear()
    tallies(network, images(40), list(range(40)), looks=(64, 128, 512))
    assert 40 * 512 <= sum(rows) <= 1.05 * 40 * 512


@pytest.mark.parametrize("looks", [(200,), (32, 50, 120, 333)])
@pytest.mark.parametrize("places", [0, 2])
def test_rows_that_are_not_settled_at_once_are_counted_once_they_are(
    small_network, looks, places, doubtful, monkeypatch
):
    calls = []

    def spy(x):
        calls.append(len(x))
        return small_network(x)

    def found():
        network = Network(spy, 5, model_id="spy", numerics=FLOAT32)
        network.fit(SHAPE, 0)
        calls.clear()
        options = {"looks": looks, "stop": pseudo_stop(looks) if len(looks) > 1 else None}
        return counts(tallies(network, images(7), list(range(7)), **options)), list(calls)

    @contextmanager
    def lent(network):
        made = [torch.full((160, *SHAPE), torch.nan) for _ in range(places)]
        yield made
        for place in made:
            place.fill_(torch.nan)  # it is another's

    expected = found()
    doubtful()
    monkeypatch.setattr(Network, "lent", lent)
    assert found() == expected, "the same votes, by as many calls"


@pytest.mark.parametrize("breaks", [2, 5])
def test_a_batch_that_was_drawn_before_a_round_broke_off_is_not_counted(small_network, breaks, doubtful, caplog):
    def found():
        return counts(tallies(Network(small_network, 5, numerics=FLOAT32), images(7), list(range(7))))

    expected = found()
    doubtful(breaks)
    assert found() == expected
    assert "out of memory with 160 rows per call; continuing with 32" in caplog.text


def test_what_is_counted_is_what_was_given(small_network):
    """Whatever becomes of the caller's memory."""
    x = images(7)

    def change(_):
        x.zero_()

    network = Network(small_network, 5, numerics=FLOAT32)
    expected = counts(tallies(network, x.clone(), list(range(7))))
    assert counts(tallies(network, x, list(range(7)), on_votes=change)) == expected


def test_places_of_another_shape_are_not_used(small_network, monkeypatch, doubtful):
    expected = counts(tallies(Network(small_network, 5, numerics=FLOAT32), images(7), list(range(7))))
    lent = [torch.full((320, *SHAPE), torch.nan)] * 2
    monkeypatch.setattr(Network, "lent", lambda network: nullcontext(lent))
    doubtful()
    assert counts(tallies(Network(small_network, 5, numerics=FLOAT32), images(7), list(range(7)))) == expected


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("looks", [(200,), (32, 50, 120, 333)])
def test_votes_do_not_depend_on_company_order_or_resumption(small_network, noise, looks):
    network = Network(small_network, 5, numerics=FLOAT32)
    ids, x = list(range(100, 140)), images(40)
    options = {"noise": noise, "looks": looks, "stop": pseudo_stop(looks) if len(looks) > 1 else None}
    together = counts(tallies(network, x, ids, **options))
    assert len(together) == 40
    assert any(len(set(row)) > 2 for row in together.values()), "a network of one class would show nothing"

    alone = {}
    for i in range(6):
        alone |= counts(tallies(network, x[i : i + 1], ids[i : i + 1], **options))
    assert alone == {number: together[number] for number in alone}

    order = np.random.default_rng(1).permutation(40)
    assert counts(tallies(network, x[order], [ids[i] for i in order], **options)) == together

    cut = counts(tallies(network, x[:13], ids[:13], **options))
    fresh = Network(small_network, 5, numerics=FLOAT32)
    assert cut | counts(tallies(fresh, x[13:], ids[13:], **options)) == together


@pytest.mark.parametrize("noise", NOISES)
def test_votes_of_1_7_or_512_inputs_at_a_time(small_network, noise):
    network = Network(small_network, 5, numerics=FLOAT32)
    ids, x = list(range(512)), images(512)
    everything = counts(tallies(network, x, ids, noise=noise, looks=(40,)))
    for size, until in ((1, 21), (7, 70), (512, 512)):
        parts = {}
        for first in range(0, until, size):
            parts |= counts(
                tallies(network, x[first : first + size], ids[first : first + size], noise=noise, looks=(40,))
            )
        assert parts == {number: everything[number] for number in parts}


@pytest.mark.parametrize("rows", [32, 96, 800, 4000])
def test_votes_do_not_depend_on_rows(small_network, rows):
    """Not promised to the last bit across shapes, and so for these few votes."""
    reference = Network(small_network, 5, numerics=FLOAT32)
    network = Network(small_network, 5, numerics=Numerics("float32", compile=False, rows=rows))
    ids, x = list(range(9)), images(9)
    for looks in ((333,), (31, 33, 64, 333)):
        assert counts(tallies(network, x, ids, looks=looks)) == counts(tallies(reference, x, ids, looks=looks))


def test_seeds_stages_and_ids_change_the_noise(small_network):
    network = Network(small_network, 5, numerics=Numerics("float32", compile=False, grid=2.0**-26))
    seen: list[set[float]] = []
    x = torch.zeros(1, *SHAPE)
    tallies(network, x, [0], looks=(20,))  # by then it is tried on such inputs
    inner, network._run = network._run, None

    def spy(rows: Tensor) -> Tensor:
        seen[-1].update(rows[(rows != 0).flatten(1).any(1)].flatten().tolist())
        return inner(rows)

    network._run = spy
    for seed, stage, number in [
        (0, Stage.ESTIMATE, 0),
        (1, Stage.ESTIMATE, 0),
        (0, Stage.SELECT, 0),
        (0, Stage.ESTIMATE, 1),
    ]:
        seen.append(set())
        tallies(network, x, [number], seed=seed, stage=stage, looks=(20,))
    assert [len(values) > 1200 for values in seen] == [True] * 4
    for i in range(4):
        for j in range(i):
            # values coincide by chance now and then, whole streams do not
            assert len(seen[i] & seen[j]) < 5, (i, j)


@pytest.mark.parametrize("rows", [160, 4000])
def test_counts_add_up_and_every_look_is_judged_in_turn(small_network, rows):
    """With many rows a call all looks are counted at once, and judged one by one all the same."""
    network = Network(small_network, 5, numerics=Numerics("float32", compile=False, rows=rows))
    looks, asked = (32, 100, 250), []

    def stop(position, look, counts):
        asked.append((position.tolist(), look.tolist(), counts.sum(1).tolist()))
        return (position % 3 == 0) & (look == position % 2)

    found = tallies(network, images(10), list(range(10)), looks=looks, stop=stop)
    for number, tally in found.items():
        assert tally.votes == (looks[number % 2] if number % 3 == 0 else 250)
        assert tally.counts.sum() == tally.votes
    for positions, at, totals in asked:
        assert totals == [looks[i] for i in at], positions
    judged = [(p, look) for positions, at, _ in asked for p, look in zip(positions, at, strict=True)]
    assert sorted(judged, key=lambda pair: pair[0]) == [
        (p, i) for p in range(10) for i in range(looks.index(found[p].votes) + 1)
    ]


def test_every_vote_is_told(small_network):
    network = Network(small_network, 5, numerics=FLOAT32)
    told = []
    tallies(network, images(7), list(range(7)), looks=(100,), on_votes=told.append)
    assert sum(told) == 700
    assert max(told) <= 160


def test_more_inputs_than_slots(small_network, monkeypatch):
    network = Network(small_network, 5, numerics=FLOAT32)
    x, ids = images(30), list(range(30))
    expected = counts(tallies(network, x, ids, looks=(32, 64), stop=pseudo_stop((32, 64))))
    monkeypatch.setattr(votes, "SLOT_BYTES", 4 * (2 * 64 + 2 * 5) * 2)
    assert counts(tallies(network, x, ids, looks=(32, 64), stop=pseudo_stop((32, 64)))) == expected


class Picky(nn.Module):
    """Class 1 for large first pixels. Runs out of memory with more rows than `most`, from call number `after` on."""

    def __init__(self, most: int, after: int = 0) -> None:
        super().__init__()
        self.most, self.after, self.calls = most, after, 0
        self.eval()

    def __deepcopy__(self, memo):
        return self  # so that the test can see the calls of the engine's copy

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if len(x) > self.most and self.calls > self.after:  # len() also keeps the network from being traced
            raise torch.OutOfMemoryError(f"CUDA out of memory with {len(x)} rows")
        first = x.flatten(1)[:, 0]
        return torch.stack([0.5 - first, first - 0.5], 1)


@pytest.mark.parametrize("after", [0, 40])
@pytest.mark.parametrize("plan", [Plan(n=900), Plan(n=900, stop="betting", alpha=0.01)])
def test_out_of_memory_at_first_and_in_mid_run(caplog, after, plan):
    from anisocert import certify

    x = images(5)
    small = Network(Picky(10**9), 2, numerics=Numerics("float32", compile=False, rows=32))
    expected = certify(small, x, smoothing=Gaussian(0.5), plan=plan)
    model = Picky(most=100, after=after)
    network = Network(model, 2, numerics=Numerics("float32", compile=False, rows=800))
    told: list[int] = []
    with caplog.at_level(logging.WARNING):
        found = certify(network, x, smoothing=Gaussian(0.5), plan=plan, on_votes=told.append)
    assert model.calls > after + 2
    assert max(told) > 100 if after else max(told) <= 32  # in mid-run: votes had been counted in the larger shape
    assert network.numerics.rows == 32
    assert "out of memory with 800 rows per call; continuing with 160" in caplog.text
    for a, b in zip(found, expected, strict=True):
        assert (a.prediction, a.gap, a.top_votes, a.votes, a.bound_k) == (
            b.prediction,
            b.gap,
            b.top_votes,
            b.votes,
            b.bound_k,
        )


def test_out_of_memory_with_the_smallest_batch():
    with pytest.raises(ModelError, match="out of memory with only 32"):
        tallies(Network(Picky(8), 2, numerics=Numerics("float32", rows=160)), images(1), [0])


def test_other_errors_of_the_model_are_not_hidden():
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("a mistake of the user's")

    with pytest.raises(ModelError, match=r"inputs of shape \(.*a mistake of the user's") as told:
        tallies(Network(Broken().eval(), 2, numerics=FLOAT32), images(1), [0])
    assert type(told.value.__cause__) is RuntimeError


@pytest.mark.parametrize("callback", ["on_votes", "stop"])
def test_an_interruption_leaves_nothing_broken(small_network, callback):
    network = Network(small_network, 5, numerics=FLOAT32)
    x, ids = images(12), list(range(12))
    expected = counts(tallies(Network(small_network, 5, numerics=FLOAT32), x, ids, looks=(64, 200)))
    calls = 0

    def interrupt(*_):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return np.zeros(1, bool)

    with pytest.raises(KeyboardInterrupt):
        tallies(network, x, ids, looks=(64, 200), **{callback: interrupt})
    assert counts(tallies(network, x, ids, looks=(64, 200))) == expected


class NanWhen(nn.Module):
    """NaN for inputs of a kind, else class 0."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        wrong = {"all": flat[:, 0] == flat[:, 0], "rare": flat[:, 0] > 2.9, "zero": (flat == 0).all(1)}[self.kind]
        return torch.stack([torch.ones_like(flat[:, 0]), torch.where(wrong, torch.nan, 0.0)], 1)


def test_nan_of_a_noisy_input_in_a_late_batch():
    network = Network(NanWhen("rare").eval(), 2, numerics=FLOAT32)
    told: list[int] = []
    with pytest.raises(ModelError, match="NaN"):
        list(
            count_votes(
                Query(network, Gaussian(1.0), torch.zeros(1, *SHAPE), [0], 0), torch.ones(1, 1, 1, 1, 1),
                Stage.ESTIMATE, [100_000], on_votes=told.append,
            )
        )  # fmt: skip
    assert len(told) > 1


def test_nan_of_every_input():
    with pytest.raises(ModelError, match="NaN"):
        tallies(Network(NanWhen("all").eval(), 2, numerics=FLOAT32), images(1), [0])


def test_nan_of_padding_is_nobodys_business():
    found = tallies(Network(NanWhen("zero").eval(), 2, numerics=FLOAT32), images(1), [0], looks=(10,))
    assert found[0].counts.tolist() == [10, 0]


def test_top_and_runner_up():
    counts = np.array([[[3, 5, 2], [0, 0, 9]], [[4, 4, 1], [1, 0, 0]]])
    top, runner_up = top_and_runner_up(counts, np.array([1, 0])[:, None])
    assert top.tolist() == [[5, 0], [4, 1]]
    assert runner_up.tolist() == [[3, 9], [4, 0]]
    assert counts.min() == 0  # they are not written to
