"""Gradients as searches on a GPU take them, with what is captured there done again in its place."""

import logging
from functools import partial

import pytest
import torch
from fixtures.classifiers import Rounding
from torch import Tensor, nn

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query
from anisocert.engine.launching import ReplayedPasses, replayed_passes
from anisocert.engine.trial import Trial
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.soft import Problem

SHAPE = (6,)


class Replaying:
    """A network that replays in searches. replays: how many there were of a forward pass."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).eval()
        self.network = Network(self.model, 3, "cpu", Numerics("float32", False, 800))
        self.network.fit(SHAPE, 0)
        self.replays, self.compilations = 0, 0

    def capture(self, parts, state, alone):
        return [self._counted(parts[0]), parts[1]]

    def compiled(self, form, try_out):
        self.compilations += 1
        return form

    def _counted(self, part):
        def forward() -> None:
            self.replays += 1
            part()

        return forward

    def slope(self, x: Tensor, one_shape: bool = True) -> Tensor:
        leaf = x.clone().requires_grad_(True)
        scores = self.network.differentiable_scores(leaf, one_shape)
        return torch.autograd.grad(scores[:, 0].sum(), [leaf])[0]

    def search(self, copies: int, steps: int = 3) -> int:
        """Climb; returns the replays that it took."""
        query, before = Query.of(self.network, Gaussian(0.5), batch(4)), self.replays
        Ascent(steps, copies, 0.1, adam=True, logarithmic=True).rehearse(Problem(query, "logits"), steps)
        return self.replays - before

    @property
    def replayed(self) -> bool:
        return isinstance(self.network._gradients._replayed[1], ReplayedPasses)


@pytest.fixture
def replaying(monkeypatch) -> Replaying:
    made = Replaying()
    monkeypatch.setattr("anisocert.engine._gradients.replayed_passes", partial(replayed_passes, capture=made.capture))
    monkeypatch.setattr("anisocert.engine._gradients.compiled_if_works", made.compiled)
    monkeypatch.setattr(
        Network, "differentiable_scores", lambda self, x, one_shape=False: self._gradients.scores(x, one_shape)
    )
    return made


class Untraced(nn.Module):
    """A network that is not traced."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(Rounding.apply(8 * x) / 8)


def batch(rows: int) -> Tensor:
    return torch.randn(rows, *SHAPE, generator=torch.Generator().manual_seed(rows))


def test_searches_with_other_numbers_of_copies_are_replayed_and_compiled_for_no_second_time(replaying):
    for copies in (100, 32, 100):
        assert replaying.search(copies) >= 3
        assert replaying.replayed
    assert replaying.compilations == 1
    torch.testing.assert_close(replaying.slope(batch(5)), replaying.slope(batch(5), one_shape=False))


OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory")


def test_a_search_that_runs_out_of_memory_gives_up_its_graph_before_copies(replaying, monkeypatch, caplog):
    def full(*_):
        raise OUT_OF_MEMORY

    replaying.search(100)
    (rows, _), _ = replaying.network._gradients._replayed
    monkeypatch.setattr(ReplayedPasses, "backward", full)
    with caplog.at_level(logging.WARNING):
        replaying.search(100)
    assert caplog.messages == ["out of memory; continuing without a CUDA graph of the search's steps"]
    assert not replaying.replayed
    assert replaying.network._gradients._replayed[0][0] == rows
    assert replaying.search(100) == 0  # nor is it captured again


def test_votes_that_run_out_of_memory_give_up_the_graph_of_searches_before_rows(replaying):
    replaying.search(100)
    replaying.network.shrink(OUT_OF_MEMORY)
    assert not replaying.replayed
    assert replaying.network.fit(SHAPE, 0) == 800
    replaying.network.shrink(OUT_OF_MEMORY)
    assert replaying.network.fit(SHAPE, 0) == 160


def test_looking_for_state_gives_up_the_graph_of_searches(replaying, monkeypatch):
    evaluate, full = Trial.evaluate, [OUT_OF_MEMORY]

    def once(*args):
        if full:
            raise full.pop()
        return evaluate(*args)

    replaying.search(100)
    monkeypatch.setattr(Trial, "evaluate", once)
    replaying.network.expect_no_state()
    assert not full
    assert not replaying.replayed


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh()), Untraced()])
def test_what_was_made_in_inference_mode_has_gradients_outside_of_it(model):
    with torch.inference_mode():
        network = Network(model.eval(), 3, "cpu", Numerics("float32", False, 32))
        network.differentiable_scores(batch(32))
    leaf = batch(32).requires_grad_(True)
    slopes = [torch.autograd.grad(call(leaf)[:, 0].sum(), [leaf])[0] for call in (model, network.differentiable_scores)]
    torch.testing.assert_close(*slopes)


class Slopes(torch.autograd.Function):
    """What it is given, with gradients times a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(factor)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope * ctx.saved_tensors[0], None


@pytest.mark.parametrize(
    ("first", "last", "kept"), [(1.0, 1.0, True), (1.02, 1.0, True), (1.0, torch.nan, False), (0.0, 1.0, False)]
)
def test_a_compiled_network_whose_gradients_are_wrong_is_done_without(monkeypatch, caplog, first, last, kept):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3), nn.Softmax(1)).eval()
    x, factor = batch(96), torch.ones(96, 1)
    factor[:16], factor[-1] = first, last  # the last row is none of those that are compared with float32

    def compile(form, **options):
        return lambda x: form(Slopes.apply(x, factor))

    monkeypatch.setattr(torch, "compile", compile)
    network = Network(model, 3, "cpu", Numerics("float32", True, 96))
    with caplog.at_level(logging.WARNING):
        form, run = network._gradients._compiled_for(x)
    assert (run.args[0] is not form) is kept
    assert ("its gradients differ from the model's" in caplog.text) is not kept
    leaf = x.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(run(leaf)[:, 0].sum(), [leaf])
    (exact,) = torch.autograd.grad(model(leaf)[:, 0].sum(), [leaf])
    torch.testing.assert_close(slope, exact, rtol=0.03, atol=1e-6)
