"""Training by CUDA graphs: as if launched one by one, resumable, and where it cannot be, launched one by one."""

import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.training import toy
from torch import Tensor, nn

from anisocert.data import Dataset
from anisocert.engine.launching import captured
from anisocert.models import CIFAR10_MEAN, CIFAR10_STD, build
from anisocert.smoothing import Gaussian, GaussianMixture, Smoothing, Uniform
from anisocert.train import MACER, Cohen, Consistency, Recipe, Selector, Sgd, SmoothAdv, Stability, selector_data, train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

RECIPES = {
    "cohen": Cohen(), "stability": Stability(), "consistency": Consistency(), "macer": MACER(copies=2, start=0.3),
    "smoothadv": SmoothAdv(steps=2, warmup=2),
    "selector": Selector(values=torch.rand(150, 2, generator=torch.Generator().manual_seed(0))),
}  # fmt: skip


def trained(
    recipe: Recipe, smoothing: Smoothing | None = None, model: nn.Module | None = None, **options: Any
) -> tuple[nn.Module, list[dict[str, Any]]]:
    torch.manual_seed(1)
    model = model or build("small-cnn", 2, (0.4,), (0.3,))
    data = selector_data(toy()) if recipe.name == "selector" else toy()
    options = {"sgd": Sgd(4, 32, 0.02), "device": "cuda", "precision": "float32", "seed": 5, **options}
    return model, train(model, data, recipe, smoothing or Gaussian(0.2), **options)


def assert_close(a: nn.Module, b: nn.Module) -> None:
    for one, other in zip(a.state_dict().values(), b.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("name", RECIPES)
def test_a_graph_trains_as_launches_do(name: str) -> None:
    """The same batches, noise and updates, up to rounding; other noise would change weights by a hundred times that."""
    graphed, records = trained(RECIPES[name])
    launched, others = trained(RECIPES[name], graph=False)
    assert [record["graph"] for record in records] == [True] * 4
    assert [record["graph"] for record in others] == [False] * 4
    assert [r["loss"] for r in records] == pytest.approx([r["loss"] for r in others], rel=1e-3)
    assert [r["learning_rate"] for r in records] == [r["learning_rate"] for r in others]
    assert_close(graphed, launched)
    assert all(parameter.grad is None for parameter in graphed.parameters())


@pytest.mark.parametrize(
    "smoothing",
    [
        GaussianMixture([0.5, 0.5], [0.1, 0.3]),
        Gaussian(np.linspace(0.1, 0.5, 36, dtype=np.float32).reshape(1, 6, 6)),
    ],
    ids=["mixture", "sigma per pixel"],
)
def test_noises_with_tensors_of_their_own(smoothing: Smoothing) -> None:
    graphed, records = trained(Cohen(), smoothing)
    assert records[-1]["graph"]
    assert_close(graphed, trained(Cohen(), smoothing, graph=False)[0])


def test_batch_norm_and_dropout_in_mixed_precision() -> None:
    def model() -> nn.Module:
        torch.manual_seed(2)
        return nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, 2)
        )

    graphed, records = trained(Cohen(), model=model(), precision="bfloat16", test=toy(60, 1))
    launched, others = trained(Cohen(), model=model(), precision="bfloat16", test=toy(60, 1), graph=False)
    assert records[-1]["graph"]
    assert [r["loss"] for r in records] == pytest.approx([r["loss"] for r in others], rel=0.02)
    assert graphed[1].num_batches_tracked == launched[1].num_batches_tracked == 16
    torch.testing.assert_close(graphed[1].running_mean, launched[1].running_mean, rtol=0.02, atol=1e-3)


class Killed(Exception):
    pass


@pytest.mark.parametrize("name", ["cohen", "smoothadv", "macer"])
def test_resume_equals_uninterrupted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit, though each part captures its own graph."""
    monkeypatch.setattr("anisocert.train._folder.EVERY", 0.0)  # the state is written after each epoch
    whole, records = trained(RECIPES[name], folder=tmp_path / "whole")

    def kill(record: dict[str, Any]) -> None:
        raise Killed

    for _ in range(3):
        with pytest.raises(Killed):
            trained(RECIPES[name], folder=tmp_path / "parts", on_epoch=kill)
        torch.rand(3, device="cuda")
    resumed, again = trained(RECIPES[name], folder=tmp_path / "parts")
    assert all(record["graph"] for record in again)
    assert [record["loss"] for record in again] == [record["loss"] for record in records]
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


NETWORKS: dict[str, tuple[str, Recipe, Smoothing]] = {
    "cohen": ("resnet18-paper", Cohen(), Gaussian(0.25)),
    "macer": ("resnet18-paper", MACER(copies=2, start=0.0), Gaussian(0.25)),
    "smoothadv": ("resnet18-paper", SmoothAdv(steps=2, warmup=1), Gaussian(0.25)),
    "consistency": ("resnet18", Consistency(), Gaussian(0.5)),
    "stability": ("wrn-40-2", Stability(), Uniform(0.289)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_training_twice_gives_the_same_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit, in bfloat16 on the networks of the experiments, whatever the user's cuDNN would try out."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    arch, recipe, smoothing = NETWORKS[name]
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (2048, 3, 32, 32)).astype(np.uint8), rng.integers(0, 10, 2048)
    data = Dataset("random", x, y, np.arange(2048), 10, CIFAR10_MEAN, CIFAR10_STD, crop=4, flip=True)

    def weights() -> dict[str, Tensor]:
        torch.manual_seed(1)
        model = build(arch, 10, CIFAR10_MEAN, CIFAR10_STD)
        train(model, data, recipe, smoothing, sgd=Sgd(2, 128, 0.05), device="cuda", seed=3)
        return model.state_dict()

    first, beside = weights(), torch.rand(12345, device="cuda")  # the second finds memory elsewhere
    again = weights()
    assert len(beside) == 12345
    assert all(torch.equal(value, again[key]) for key, value in first.items())


def test_the_callers_random_state_is_not_touched() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3, device="cuda")
    model = build("small-cnn", 2, (0.4,), (0.3,))
    torch.manual_seed(0)
    train(model, toy(), Cohen(), Gaussian(0.2), sgd=Sgd(1, 32, 0.02), device="cuda")
    assert torch.equal(torch.rand(3, device="cuda"), expected)


class Waiting(nn.Module):
    """A network that asks the device for a number at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = build("small-cnn", 2, (0.4,), (0.3,))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.inner(x)
        return scores * (1.0 if float(scores.detach().sum()) > -1e9 else 2.0)


class Dropping(Waiting):
    """A network that drops its scores' scale by a number from the host."""

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.inner(x)
        return scores * (1.0 if not self.training or random.random() < 0.5 else 0.5)


@pytest.mark.parametrize("kind", [Waiting, Dropping])
def test_what_cannot_be_captured_is_launched(kind: type[Waiting], caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(1)
    random.seed(0)
    with caplog.at_level(logging.WARNING):
        model, records = trained(SmoothAdv(steps=1, warmup=3), model=kind())
    assert [record["graph"] for record in records] == [False] * 4
    assert [line.getMessage().split(":")[0] for line in caplog.records] == ["no CUDA graph, so that it takes longer"]
    if kind is Waiting:
        torch.manual_seed(1)
        assert_close(model, trained(SmoothAdv(steps=1, warmup=3), model=kind(), graph=False)[0])


def test_a_capture_that_fails_leaves_everything_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    total = torch.zeros((), device="cuda")

    def work() -> None:
        total.add_(torch.rand((), device="cuda"))
        if torch.cuda.is_current_stream_capturing():
            float(total)

    torch.cuda.manual_seed(4)
    expected = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(4)
    stream = torch.cuda.current_stream()
    assert captured(work, [total]) is None
    assert "no CUDA graph" in caplog.text
    assert torch.cuda.current_stream() == stream
    assert float(total) == 0
    assert torch.equal(torch.rand(2, device="cuda"), expected)
    torch.zeros(1 << 20, device="cuda").sum().item()


def test_replays_draw_new_numbers_that_follow_from_the_seed() -> None:
    drawn = torch.zeros(4, device="cuda")

    def work() -> None:
        drawn.copy_(torch.rand(4, device="cuda"))

    replay = captured(work, [drawn])
    assert replay is not None
    torch.cuda.manual_seed(7)
    expected = [torch.rand(4, device="cuda") for _ in range(3)]
    torch.cuda.manual_seed(7)
    for one in expected:
        replay()
        assert torch.equal(drawn, one)
