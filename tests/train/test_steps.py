"""An epoch's steps against a loop written out, and replays against steps, with the work itself in a graph's place."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.data import Dataset
from anisocert.engine.launching.capture import Work, undone
from anisocert.smoothing import Gaussian, GaussianMixture
from anisocert.train import MACER, Cohen, Consistency, Recipe, Selector, Sgd, SmoothAdv, Stability, train
from anisocert.train._augment import Batches
from anisocert.train._mixed import Mixed
from anisocert.train._steps import Replays, Steps

SGD = Sgd(4, batch_size=16, learning_rate=0.05)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As a training of so few values has: sums of two threads are rounded differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def data(n: int = 70) -> Dataset:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (n, 1, 6, 5)).astype(np.uint8)
    return Dataset("toy", pixels, rng.integers(0, 3, n), np.arange(n), 3, (0.5,), (0.3,), crop=1, flip=True)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(48, 3)
    )


@pytest.mark.parametrize("clip", [None, 0.3])
def test_a_training_on_a_cpu_is_the_plain_loop_bit_by_bit(clip: float | None) -> None:
    """Shuffle, crop, mirror, noise, loss, SGD, one after the other, from the seed of each epoch."""
    ours, plain, examples = network(), network(), data()
    sgd, norms = replace(SGD, clip=clip), []
    records = train(ours, examples, Cohen(), Gaussian(0.2), sgd=sgd, seed=7, precision="float32")
    optimizer = torch.optim.SGD(plain.parameters(), 0.05, 0.9, weight_decay=5e-4, nesterov=True)
    plain.to(memory_format=torch.channels_last).train()
    padded = np.pad(examples.pixels, ((0, 0), (0, 0), (1, 1), (1, 1)))
    losses = []
    for epoch in range(4):
        torch.manual_seed(int(np.random.SeedSequence([7, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1)))
        order = torch.randperm(70)[:64].view(4, 16)
        top, left = torch.randint(0, 3, (2, 4, 16))
        mirrored = torch.rand(4, 16) < 0.5
        total = torch.zeros(())
        for i in range(4):
            images = [
                padded[n, :, t : t + 6, k : k + 5][:, :, :: -1 if m else 1]
                for n, t, k, m in zip(order[i], top[i], left[i], mirrored[i], strict=True)
            ]
            x = torch.from_numpy(np.stack(images)).contiguous(memory_format=torch.channels_last).float() / 255
            noisy = x + torch.randn_like(x) * float(np.float32(0.2))
            loss = F.cross_entropy(plain(noisy), torch.from_numpy(examples.y)[order[i]])
            optimizer.param_groups[0]["lr"] = SGD.rate(4 * epoch + i, 16)
            optimizer.zero_grad()
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(plain.parameters(), clip or math.inf))
            optimizer.step()
            total += loss.detach()
        losses.append(float(total) / 4)
    assert [record["loss"] for record in records] == losses
    assert clip is None or float(max(norms)) > 2 * clip, "it was needed"
    for a, b in zip(ours.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.equal(a, b)


class Capture:
    """What a graph does to its surroundings: work that is undone, then as much of it as there are replays."""

    def __init__(self, works: bool = True) -> None:
        self.works, self.times = works, 0

    def __call__(self, work: Work, state: Sequence[Tensor]) -> Work | None:
        self.times += 1
        with undone(state):
            work()
            work()
        return work if self.works else None


def epochs(
    kind: Callable[..., Steps],
    recipe: Recipe,
    smoothing: Any = None,
    sgd: Sgd = SGD,
    model: nn.Module | None = None,
) -> tuple[Steps, Any]:
    """All epochs; their losses, and all that was learned."""
    model = model or network()
    optimizer = torch.optim.SGD(
        model.parameters(), 0.05, sgd.momentum, weight_decay=sgd.weight_decay, nesterov=sgd.momentum > 0
    )
    batches = Batches(data(), sgd.batch_size, 1, True, torch.device("cpu"))
    steps = kind(Mixed(model, "float32").train(), batches, smoothing or Gaussian(0.2), sgd, optimizer)
    losses = []
    for epoch in range(sgd.epochs):
        torch.manual_seed(epoch)
        losses.append(steps.epoch(recipe.during(epoch, sgd.epochs), epoch))
    momentum = [state.get("momentum_buffer") for state in optimizer.state.values()]
    rates = [group["lr"] for group in optimizer.param_groups]
    return steps, (losses, [*model.state_dict().values(), *filter(lambda m: m is not None, momentum)], rates)


RECIPES = {
    "cohen": (Cohen(), 1), "smoothadv": (SmoothAdv(steps=2, copies=2, warmup=3), 3),
    "macer": (MACER(copies=2, start=0.5), 2), "stability": (Stability(), 1), "consistency": (Consistency(), 1),
    "selector": (Selector(values=torch.rand(3, 3, generator=torch.Generator().manual_seed(0))), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_replays_do_what_steps_do(name: str) -> None:
    """Captured once for each form that the recipe takes; of what is learned nothing differs but by the rate's rounding.

    A tensor that a step changes and that a capture did not put back would be seen here.
    """
    (recipe, captures), capture = RECIPES[name], Capture()
    _, (losses, learned, rates) = epochs(Steps, recipe)
    replays, (again, relearned, rerates) = epochs(lambda *given: Replays(*given, capture=capture), recipe)
    assert again == pytest.approx(losses, rel=1e-5)
    for a, b in zip(learned, relearned, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert rerates == rates
    assert [type(rate) for rate in rerates] == [float]
    assert capture.times == captures
    assert replays.graph


@pytest.mark.parametrize(
    ("sgd", "smoothing"),
    [
        (replace(SGD, momentum=0.0), None),
        (replace(SGD, clip=0.01), None),
        (SGD, GaussianMixture([0.5, 0.5], [0.1, 0.3])),
        (SGD, Gaussian(np.linspace(0.1, 0.5, 30, dtype=np.float32).reshape(1, 6, 5))),
    ],
    ids=["no momentum", "clipped", "mixture", "sigma per pixel"],
)
def test_replays_of_other_optimisers_and_noises(sgd: Sgd, smoothing: Any) -> None:
    _, (losses, learned, _) = epochs(Steps, Cohen(), smoothing, sgd)
    _, (again, relearned, _) = epochs(lambda *given: Replays(*given, capture=Capture()), Cohen(), smoothing, sgd)
    assert again == pytest.approx(losses, rel=1e-5)
    for a, b in zip(learned, relearned, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_captured_is_launched_and_not_tried_again() -> None:
    recipe, capture = RECIPES["smoothadv"][0], Capture(works=False)
    _, (losses, learned, rates) = epochs(Steps, recipe)
    steps, (again, relearned, rerates) = epochs(lambda *given: Replays(*given, capture=capture), recipe)
    assert (again, rerates) == (losses, rates)
    assert all(torch.equal(a, b) for a, b in zip(learned, relearned, strict=True))
    assert capture.times == 1
    assert not steps.graph


@pytest.mark.parametrize("name", RECIPES)
def test_a_capture_that_fails_in_the_middle_of_a_step_changes_nothing(name: str) -> None:
    model = network()

    def wait(*_: Any) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    def capture(work: Work, state: Sequence[Tensor]) -> Work | None:
        waits = model.register_forward_pre_hook(wait)
        with pytest.raises(RuntimeError, match="not permitted"), undone(state):
            work()
        waits.remove()
        return None

    _, expected = epochs(Steps, RECIPES[name][0])
    steps, reached = epochs(lambda *given: Replays(*given, capture=capture), RECIPES[name][0], model=model)
    assert not steps.graph
    assert reached[0] == expected[0]
    assert all(torch.equal(a, b) for a, b in zip(expected[1], reached[1], strict=True))


@dataclass(frozen=True)
class Weighted(Cohen):
    """Holds an array, and so cannot be compared."""

    weight: Any = None

    name = "weighted"

    def during(self, epoch: int, epochs: int) -> "Weighted":
        return Weighted(np.full(3, epoch))


def test_recipes_that_cannot_be_compared_are_captured_again() -> None:
    capture = Capture()
    epochs(lambda *given: Replays(*given, capture=capture), Weighted())
    assert capture.times == 4


def test_undone() -> None:
    state = [torch.arange(3.0, requires_grad=True), torch.zeros(2, 2).t()]
    places = [tensor.data_ptr() for tensor in state]

    @torch.no_grad()
    def work() -> None:
        torch.rand(5)
        for tensor in state:
            tensor += math.pi
        raise KeyError

    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with pytest.raises(KeyError), undone(state):
        work()
    assert torch.equal(torch.rand(2), expected)
    assert state[0].tolist() == [0, 1, 2]
    assert not state[1].any()
    assert [tensor.data_ptr() for tensor in state] == places
