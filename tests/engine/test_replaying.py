"""Replays of a CUDA graph are the network's calls, bit by bit; what is not certain to be so is launched."""

import threading

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query, Stage, count_votes
from anisocert.engine._replaying import Replayed, replayed
from anisocert.errors import ModelError

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
ROWS = 64


def evaluate(run, x):
    with torch.no_grad():
        return run(x)


def deep(layers: int = 60) -> nn.Module:
    """So many small kernels that launching them takes longer than they do."""
    torch.manual_seed(0)
    body = [part for _ in range(layers) for part in (nn.Linear(16, 16), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *body, nn.Linear(16, 3)).eval().requires_grad_(False)


def batch(seed: int, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, 16, generator=torch.Generator().manual_seed(seed)).cuda()


def as_graph(model: nn.Module, device: str = "cuda") -> nn.Module:
    return fx.symbolic_trace(model.to(device))


def test_without_a_gpu_nothing_is_replayed():
    form = as_graph(deep(2), "cpu")
    assert replayed(evaluate, form, form, torch.randn(ROWS, 16)) is form


@gpu
def test_a_network_that_cannot_be_traced_is_launched():
    model = deep().cuda()
    assert replayed(evaluate, model, model, batch(0)) is model


@gpu
def test_replays_are_the_calls_bit_by_bit():
    form = as_graph(deep())
    run = replayed(evaluate, form, form, batch(0))
    assert isinstance(run, Replayed)
    found = [evaluate(run, batch(seed)) for seed in range(5)]  # each with a place of its own
    for seed, scores in enumerate(found):
        assert torch.equal(scores, evaluate(form, batch(seed)))
    assert len({scores.data_ptr() for scores in found}) == 5
    assert torch.equal(evaluate(run, batch(0, 7)), evaluate(form, batch(0, 7)))


@gpu
def test_calls_from_several_threads_and_streams_take_turns():
    form = as_graph(deep())
    run = replayed(evaluate, form, form, batch(0))
    assert isinstance(run, Replayed)
    expected, wrong = [evaluate(form, batch(seed)) for seed in range(4)], list[int]()
    torch.cuda.synchronize()

    def ask(seed: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = batch(seed)
            for _ in range(200):
                if not torch.equal(evaluate(run, x), expected[seed]):
                    wrong.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


KEPT = dict[str, Tensor]()


@fx.wrap
def remembered(x: Tensor) -> Tensor:
    """Computes something anew only outside of a capture, as work does that a graph does not see."""
    if not torch.cuda.is_current_stream_capturing():
        KEPT["last"] = x.square()
    return KEPT["last"]


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = deep()

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.network(remembered(x))
        return scores


class Waiting(Remembering):
    """Asks the device for a number, which cannot be captured."""

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.network(x)
        return scores * (1 + abs(scores.sum().item()))


class Constant(Remembering):
    """Whose replays could not be told from stale ones."""

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.network(x * 0)
        return scores


@gpu
@pytest.mark.parametrize("kind", [Remembering, Waiting, Constant])
def test_what_a_replay_would_leave_out_is_launched(kind, caplog):
    form = as_graph(kind().eval())
    expected = evaluate(form, batch(1))
    assert replayed(evaluate, form, form, batch(0)) is form
    assert "CUDA graph" in caplog.text
    assert torch.equal(evaluate(form, batch(1)), expected)
    assert torch.rand(3, device="cuda").isfinite().all(), "the device still draws numbers"


@gpu
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_votes_are_those_of_launches(precision, compiled, monkeypatch):
    def votes() -> np.ndarray:
        network = Network(deep(), 3, "cuda", Numerics(precision, compiled, 800))
        query = Query(network, Gaussian(1.0), batch(3, 5), list(range(5)), 0)
        counted = count_votes(query, torch.ones(5, 1, 1, device="cuda"), Stage.ESTIMATE, [5000])
        counts = np.zeros((5, 3), int)
        for tally in counted:
            counts[tally.position] = tally.counts
        network.expect_no_state()
        kinds.append(isinstance(network._run, Replayed))
        return counts

    kinds = list[bool]()
    replays = votes()
    monkeypatch.setattr("anisocert.engine.network.replayed", lambda evaluate, run, form, sample: run)
    assert np.array_equal(replays, votes())
    assert kinds == [True, False]
    assert (replays.max(1) < 4999).any(), "a network of one class would show nothing"


@gpu
def test_state_is_looked_for_in_the_network_itself():
    """A replay would hide weights that something has exchanged."""
    network = Network(deep(), 3, "cuda", Numerics("float32", False, 800))
    network.fit((16,), 0)
    assert isinstance(network._run, Replayed)
    network.expect_no_state()
    last = [part for part in network._run.launched.modules() if isinstance(part, nn.Linear)][-1]
    last.weight = nn.Parameter(-last.weight)
    with pytest.raises(ModelError, match="the same scores for an input in every call"):
        network.expect_no_state()
