"""Gradients by replays are those of launches bit by bit, in whatever order passes come."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query
from anisocert.engine.launching import ReplayedPasses, replayed_passes
from anisocert.engine.rewriting.tracing import traced
from anisocert.optimize._ceiling import Limits
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.soft import Problem

ROWS = 8
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]


def network(device: str, layers: int = 2) -> fx.GraphModule:
    torch.manual_seed(0)
    body = [part for _ in range(layers) for part in (nn.Linear(6, 6), nn.Tanh())]
    model = nn.Sequential(*body, nn.Linear(6, 3)).to(device).eval().requires_grad_(False)
    return traced(model, batch(0, device, 2))


def batch(seed: int, device: str, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(seed)).to(device)


def as_they_are(parts, state, alone):
    """In place of a capture where there is no GPU: what would be replayed is done again."""
    return list(parts)


def made(device: str, form: fx.GraphModule) -> ReplayedPasses:
    capture = {} if device == "cuda" else {"capture": as_they_are}
    run = replayed_passes(form, form, batch(9, device), **capture)
    assert isinstance(run, ReplayedPasses)
    return run


def squares(run, x: Tensor) -> Tensor:
    """Of scores, so that their gradients need them."""
    return run(x).square().sum()


def slope(run, x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_(True)
    (found,) = torch.autograd.grad(squares(run, leaf), [leaf])
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_the_network(device):
    form = network(device)
    run = made(device, form)
    found = [(run(batch(seed, device)), slope(run, batch(seed, device))) for seed in range(4)]
    for seed, (scores, gradients) in enumerate(found):  # each with a place of its own
        assert torch.equal(scores, form(batch(seed, device)))
        assert torch.equal(gradients, slope(form, batch(seed, device)))


@pytest.mark.parametrize("device", DEVICES)
def test_another_call_may_come_between_a_forward_and_its_backward_pass(device):
    form = network(device)
    run, leaves = made(device, form), [batch(seed, device).requires_grad_(True) for seed in range(3)]
    losses = [squares(run, leaf) for leaf in leaves]
    for leaf, loss in [*zip(leaves, losses, strict=True)][:0:-1]:  # the last one first: nobody came between
        (found,) = torch.autograd.grad(loss, [leaf], retain_graph=True)
        assert torch.equal(found, slope(form, leaf.detach()))
        (again,) = torch.autograd.grad(loss, [leaf])  # maps that the backward pass wrote over are computed anew
        assert torch.equal(again, found)
    (found,) = torch.autograd.grad(losses[0], [leaves[0]])
    assert torch.equal(found, slope(form, leaves[0].detach()))


@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_a_batch_that_are_computed_twice(device):
    """As searches do where memory is short; nothing but the network itself keeps anything for the backward pass."""
    form, forward = network(device), list[int]()
    run, leaves = made(device, form), [batch(seed, device).requires_grad_(True) for seed in range(3)]
    first, last = run._passes
    run._passes = (lambda: (forward.append(0), first()), last)
    parts = [checkpoint(run, leaf * 1.0, use_reentrant=False) for leaf in leaves]
    found = torch.autograd.grad(torch.stack([part.sum() for part in parts]).sum(), leaves)
    assert len(forward) == 2 * len(leaves)  # nobody came between the second time and the way back
    for leaf, gradients in zip(leaves, found, strict=True):
        (expected,) = torch.autograd.grad(form(leaf).sum(), [leaf])
        assert torch.equal(gradients, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_batches_of_another_shape_or_type_are_launched(device):
    form = network(device)
    run = made(device, form)
    assert torch.equal(slope(run, batch(0, device, 3)), slope(form, batch(0, device, 3)))
    double = form.double()
    assert slope(run, batch(0, device).double()).dtype == torch.float64
    assert double is form


@pytest.mark.parametrize("device", DEVICES)
def test_calls_from_several_threads_do_not_meet(device):
    form = network(device)
    run, expected = made(device, form), [slope(form, batch(seed, device)) for seed in range(4)]

    def same(seed: int) -> bool:
        x = batch(seed, device)
        return all(torch.equal(slope(run, x), expected[seed]) for _ in range(100))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(same, range(4)))


def test_what_cannot_be_captured_or_traced_is_launched():
    form = network("cpu")
    assert replayed_passes(form, form, batch(0, "cpu"), lambda *_: None) is form
    untraced = nn.Linear(6, 3)
    assert replayed_passes(untraced, untraced, batch(0, "cpu"), as_they_are) is untraced
    next(part for part in form.modules() if isinstance(part, nn.Linear)).register_forward_hook(lambda *_: None)
    assert replayed_passes(form, form, batch(0, "cpu"), as_they_are) is form


@pytest.mark.parametrize("stale", ["scores", "gradients"])
def test_replays_that_differ_are_found(stale, caplog):
    """A replay that leaves out what the host does would give the scores, or the gradients, of the batch before."""
    form = network("cpu")

    def capture(parts, state, alone):
        first = state[0].clone()

        def as_before() -> None:
            state[0].copy_(first)
            parts[0]()

        return [as_before, parts[1]] if stale == "scores" else [parts[0], lambda: None]

    with caplog.at_level(logging.INFO):
        assert replayed_passes(form, form, batch(0, "cpu"), capture) is form
    assert "they differ" in caplog.text


def test_memory_that_runs_out_leaves_the_network_as_it_is():
    def capture(parts, state, alone):
        raise torch.OutOfMemoryError("CUDA out of memory")

    form = network("cpu")
    assert replayed_passes(form, form, batch(0, "cpu"), capture) is form


@gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_search_by_replays_is_the_one_by_launches(precision, monkeypatch):
    def theta() -> Tensor:
        model = Network(network("cuda", 20), 3, "cuda", Numerics(precision, True, 800))
        query = Query.of(model, Gaussian(0.5), batch(3, "cuda", 5))
        ascent, start = Ascent(6, 40, 0.1, adam=True, logarithmic=True), torch.full_like(query.x, 0.5)
        found = ascent.climb(
            Problem(query, "logits"),
            start,
            lambda gap, theta: gap + theta.mean(1),
            lower=start / 9,
            limits=Limits.of(query, float("inf")),
        )
        kinds.append(isinstance(model._gradients._replayed[1], ReplayedPasses))
        return found

    kinds = list[bool]()
    replays = theta()
    monkeypatch.setattr("anisocert.engine._gradients.replayed_passes", lambda run, form, like: run)
    assert torch.equal(replays, theta())
    assert kinds == [True, False]
    assert (replays != 0.5).any()
