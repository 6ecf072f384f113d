"""Replays of a CUDA graph are the network's calls, bit by bit; what is not certain to be so is launched."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query, Stage, count_votes
from anisocert.engine.launching.replaying import NoWaits, Replayed, replayed
from anisocert.engine.rewriting.tracing import traced
from anisocert.errors import ModelError

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
ROWS = 64


@pytest.fixture(autouse=True)
def _whatever_launches_take(monkeypatch):
    """On a GPU that others use, kernels take so long that a graph of them would not be tried."""
    monkeypatch.setattr("anisocert.engine.launching.replaying.LAUNCHES", 0.0)


def evaluate(run, x):
    with torch.no_grad():
        return run(x)


def deep(layers: int = 60) -> nn.Module:
    """So many small kernels that launching them takes longer than they do."""
    torch.manual_seed(0)
    body = list[nn.Module]()
    for width in [*[16] * layers, 3]:
        linear = nn.Linear(16, width)
        nn.init.orthogonal_(linear.weight)  # by default weights and activations would forget their input
        nn.init.uniform_(linear.bias, -0.1, 0.1)
        body += [linear, nn.Hardtanh(-2, 2)]
    return nn.Sequential(nn.Flatten(), *body[:-1]).eval().requires_grad_(False)


def batch(seed: int, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, 16, generator=torch.Generator().manual_seed(seed)).cuda()


def as_graph(model: nn.Module, device: str = "cuda") -> nn.Module:
    return traced(model.to(device), torch.randn(2, 16).to(device))


def test_the_deep_network_depends_on_its_input():
    scores = deep()(torch.randn(1000, 16, generator=torch.Generator().manual_seed(0)))
    assert (scores.argmax(1).bincount(minlength=3) > 100).all()


@pytest.mark.parametrize(
    "call",
    [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: x.unique(), torch.is_nonzero],
)
def test_operators_that_wait_for_the_device_are_found(call):
    with pytest.raises(ModelError, match="do not wait for the device"), NoWaits():
        call(torch.randn(1))
    with NoWaits():
        assert torch.where(torch.ones(3) > 0, 1.0, 2.0)[torch.arange(2)].argmax().clone().shape == ()


def test_without_a_gpu_nothing_is_replayed():
    form = as_graph(deep(2), "cpu")
    assert replayed(evaluate, form, form, torch.randn(ROWS, 16)) is form


@gpu
def test_what_cannot_be_traced_or_has_hooks_is_launched():
    model = deep().cuda()
    assert replayed(evaluate, model, model, batch(0)) is model
    form = as_graph(deep())
    next(part for part in form.modules() if isinstance(part, nn.Linear)).register_forward_hook(lambda *_: None)
    assert replayed(evaluate, form, form, batch(0)) is form


@gpu
def test_a_call_that_is_long_beside_its_launches_is_launched(monkeypatch):
    form = as_graph(nn.Sequential(nn.Linear(16, 8192), nn.Linear(8192, 8192), nn.Linear(8192, 3)))
    many = torch.randn(8192, 16, device="cuda")
    assert isinstance(replayed(evaluate, form, form, many), Replayed)
    monkeypatch.undo()
    assert replayed(evaluate, form, form, many) is form


@gpu
def test_a_graph_that_was_captured_in_inference_mode_runs_outside_of_it():
    form = as_graph(deep())
    with torch.inference_mode():
        run = replayed(evaluate, form, form, batch(0))
    assert isinstance(run, Replayed)
    assert torch.equal(evaluate(run, batch(1)), evaluate(form, batch(1)))
    assert run(batch(1).double().float()).shape == (ROWS, 3)


@gpu
def test_a_graph_goes_before_rows_do():
    network = Network(deep(), 3, "cuda", Numerics("float32", False, 800))
    network.fit((16,), 0)
    assert isinstance(network._run, Replayed)
    launched = network._run.launched
    network.shrink(torch.OutOfMemoryError("CUDA out of memory"))
    assert network._run is launched
    assert network.numerics.rows == 800
    network.shrink(torch.OutOfMemoryError("CUDA out of memory"))
    assert network.fit((16,), 0) == 480


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
def test_places_are_lent_to_one_caller_and_others_launch():
    form = as_graph(deep())
    run = replayed(evaluate, form, form, batch(0))
    assert isinstance(run, Replayed)
    with run.lent() as places:
        for seed in range(6):
            place = places[seed % 2]
            place.copy_(batch(seed))
            assert torch.equal(evaluate(run, place), evaluate(form, batch(seed)))
        with run.lent() as others:
            assert not others
        assert torch.equal(evaluate(run, batch(9)), evaluate(form, batch(9)))
        assert torch.equal(places[0], batch(4)), "another call must not write to it"
    with run.lent() as again:
        assert len(again) == 2


@gpu
def test_calls_from_several_threads_and_streams_do_not_meet():
    form = as_graph(deep())
    run = replayed(evaluate, form, form, batch(0))
    assert isinstance(run, Replayed)
    expected = [evaluate(form, batch(seed)) for seed in range(4)]
    torch.cuda.synchronize()

    def same(seed: int) -> bool:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = batch(seed)
            return all(torch.equal(evaluate(run, x), expected[seed]) for _ in range(200))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(same, range(4)))


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
    """Fetches its scores from the device, which cannot be captured."""

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.network(x)
        return scores.cpu().to(x.device)


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
    assert torch.equal(expected, evaluate(form, batch(0))) == (kind is Constant)
    with caplog.at_level(logging.INFO):
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
