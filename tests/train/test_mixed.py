import logging
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from anisocert.models import build
from anisocert.train._mixed import Mixed


def test_bfloat16_scores_come_back_as_float32() -> None:
    model = build("small-cnn", 3, (0.5,), (0.2,)).eval()
    x = torch.rand(4, 1, 8, 8)
    plain, mixed = Mixed(model, "float32")(x), Mixed(model, "bfloat16")(x)
    assert mixed.dtype == torch.float32
    assert not torch.equal(mixed, plain)
    torch.testing.assert_close(mixed, plain, rtol=0.05, atol=0.02)


class Broken(nn.Module):
    def __init__(self, network: nn.Module, error: Exception) -> None:
        super().__init__()
        self.network, self.error = network, error

    def forward(self, x: Tensor) -> Tensor:
        self.network(x)  # the batch norm has counted by now
        raise self.error


@pytest.fixture
def kept() -> Iterator[nn.Module]:
    """A network in training, which must be as it was in the end."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    yield model
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("error", "said"),
    [(RuntimeError("no compiler here\nlines"), ": no compiler here\n"), (AssertionError(), "AssertionError()")],
)
def test_failing_compilation_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kept: nn.Module,
    error: Exception,
    said: str,
) -> None:
    monkeypatch.setattr(torch, "compile", lambda network, **_: Broken(network, error))
    mixed, x = Mixed(kept, "float32"), torch.rand(5, 3)
    with caplog.at_level(logging.WARNING):
        mixed.compile_network(lambda: mixed(x).sum())
        assert not mixed.compiled
    assert said in caplog.text
    kept.eval()
    assert mixed(x).shape == (5, 3)


def test_running_out_of_memory_is_no_failing_compilation(monkeypatch: pytest.MonkeyPatch, kept: nn.Module) -> None:
    error = torch.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(torch, "compile", lambda network, **_: Broken(network, error))
    mixed = Mixed(kept, "float32")
    with pytest.raises(torch.OutOfMemoryError):
        mixed.compile_network(lambda: mixed(torch.rand(5, 3)).sum())


def test_working_compilation_leaves_weights_and_gradients_as_they_were(
    monkeypatch: pytest.MonkeyPatch, kept: nn.Module
) -> None:
    monkeypatch.setattr(torch, "compile", lambda network, **_: nn.Sequential(network))
    mixed = Mixed(kept, "float32")
    mixed.compile_network(lambda: mixed(torch.rand(5, 3)).sum())
    assert mixed.compiled
    assert all(parameter.grad is None for parameter in kept.parameters())


def test_what_is_beside_a_compiled_network_is_compiled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[nn.Module]()

    def compile_(network: nn.Module, **_: object) -> nn.Module:
        compiled.append(network)
        return nn.Sequential(network)

    monkeypatch.setattr(torch, "compile", compile_)
    model, other, x = nn.Linear(3, 3), nn.Linear(3, 2), torch.rand(5, 3)
    mixed = Mixed(model, "float32")
    assert torch.equal(mixed.beside(other)(x), other(x))
    assert compiled == []
    mixed.compile_network(lambda: (mixed(x) + mixed.beside(other)(x).sum()).sum())
    assert mixed.compiled
    assert torch.equal(mixed.beside(other)(x), other(x))
    assert mixed.beside(other) is mixed.beside(other)  # one wrapper for all steps
    assert compiled == [model, other]
