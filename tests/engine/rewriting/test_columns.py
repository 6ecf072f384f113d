"""Maps that stay in columns: the same function, fewer layouts."""

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from anisocert.engine.rewriting._columns import keep_columns
from anisocert.engine.rewriting._layers import ColumnsConv2d, merged, parted
from anisocert.engine.rewriting._reshaping import reshape_convolutions
from anisocert.engine.rewriting.folding import _traced
from anisocert.models import build

X = torch.randn(3, 3, 8, 16, generator=torch.Generator().manual_seed(0)).contiguous(memory_format=torch.channels_last)


def settled(model: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return model.eval().requires_grad_(False)


def in_columns(model: nn.Module, x: Tensor = X) -> tuple[fx.GraphModule, dict[object, int]]:
    """The network with its thin convolutions in columns, and how often it changes layouts."""
    network = _traced(model, x, "float32")
    assert network is not None
    reshape_convolutions(network, gpu=True, precision="bfloat16", lowered=True)
    keep_columns(network)
    network.recompile()
    targets = [node.target for node in network.graph.nodes]
    return network, {kind: targets.count(kind) for kind in (merged, parted)}


class Block(nn.Module):
    """A residual block with the norm first, as a wide ResNet's; kind: how its activation and its sum are written."""

    def __init__(self, kind: str = "plain") -> None:
        super().__init__()
        self.kind, self.relu = kind, nn.ReLU(inplace=kind == "in place")
        self.norm, self.first, self.second = nn.BatchNorm2d(16), conv(), conv()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm(x)) if self.kind == "in place" else F.relu(self.norm(x))
        y = self.second(torch.sigmoid(self.first(y)) if self.kind == "other" else self.first(y))
        if self.kind == "added in place":
            y += x
            return y
        return y + x


class Changed(nn.Module):
    """Changes a map that is used once more, after it has been used in columns."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = conv(), conv()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        z = self.second(y)
        return y.relu_() + z + y


def conv() -> nn.Conv2d:
    return nn.Conv2d(16, 16, 3, padding=1)


def network(*blocks: nn.Module) -> nn.Module:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))
    return settled(nn.Sequential(nn.Conv2d(3, 16, 1), *blocks, *head))


def test_merged_and_parted():
    assert torch.equal(parted(merged(X, 4), 4), X)
    assert merged(X, 4, 5).shape == (3, 17, 8, 4)
    assert torch.equal(merged(X, 4)[:, 3:6], X[..., 1::4])
    assert not merged(X, 4, 5)[:, 12:].any()


@pytest.mark.parametrize("kind", ["plain", "in place", "other"])
def test_blocks_stay_in_columns(kind):
    model = network(Block(kind), Block(kind), Block(kind))
    found, counted = in_columns(model)
    assert torch.allclose(found(X), model(X), atol=1e-5)
    if kind != "other":
        assert (counted[merged], counted[parted]) == (2, 1), "the first norm and sum go in, the last sum out"


@pytest.mark.parametrize("model", [Changed(), Block("added in place")])
def test_what_is_changed_in_place_is_changed_for_all(model):
    model = network(model)
    found, _ = in_columns(model)
    assert torch.allclose(found(X), model(X), atol=1e-5)
    assert torch.equal(found(X), found(X))


@pytest.mark.parametrize(("name", "convolutions"), [("wrn-40-2", 13), ("resnet20", 12)])
def test_our_networks_stay_in_columns(name, convolutions):
    model, x = settled(build(name, 10, (0.5,) * 3, (0.2,) * 3)), torch.rand(2, 3, 32, 32)
    found, counted = in_columns(model, x)
    expected = model(x)
    assert (found(x) - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert sum(isinstance(part, ColumnsConv2d) for part in found.modules()) == convolutions
    assert counted[merged] + counted[parted] <= 9


class Shifted(nn.Module):
    """Adds something that is no map."""

    def __init__(self) -> None:
        super().__init__()
        self.thin, self.shift = conv(), nn.Parameter(torch.randn(1, 16, 1, 16))

    def forward(self, x: Tensor) -> Tensor:
        return self.thin(self.thin(x) + self.shift)


class Written(nn.Module):
    """Sums and ReLUs that are written in other ways."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.thin, self.kind, self.norm = conv(), kind, nn.BatchNorm2d(16)
        if kind == "tied":
            self.norm.bias = self.norm.weight

    def forward(self, x: Tensor) -> Tensor:
        y = self.thin(x)
        if self.kind == "named":
            return self.thin(torch.relu(input=y))
        if self.kind == "tied":
            return self.thin(self.norm(torch.sigmoid(y) + y))
        return self.thin(torch.add(y, torch.sigmoid(y), alpha=3))


class Taken(Block):
    """Has a layer whose name others might want."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_in_columns = nn.Conv2d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.norm_in_columns(super().forward(x)))


@pytest.mark.parametrize(
    "model",
    [
        *(network(Written(kind)) for kind in ("named", "tied", "scaled")),
        network(Taken()),
        network(Shifted()),
        settled(nn.Sequential(*(nn.Conv2d(3, 3, 3, padding=1) for _ in range(3)), nn.Flatten(), nn.Linear(384, 4))),
        settled(nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), conv(), nn.ReLU())),
    ],
    ids=["named", "tied", "scaled", "taken", "a shift", "columns with padding", "a map as scores"],
)
def test_what_is_no_such_layer_stays_as_it_is(model):
    found, _ = in_columns(model)
    assert torch.allclose(found(X), model(X), atol=1e-5)


def test_a_shape_for_a_layer_that_takes_in_its_shortcut_is_not_made(monkeypatch):
    class Pointwise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.point = nn.Conv2d(3, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.point(x) + x)

    monkeypatch.setattr("anisocert.engine.rewriting._reshaping.PointwiseConv2d", None)
    found, _ = in_columns(Pointwise().eval())
    assert type(found.point) is nn.Conv2d


def test_a_sum_of_a_wide_and_another_map():
    class Shortcut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.thin, self.point = conv(), nn.Conv2d(16, 16, 1)

        def forward(self, x: Tensor) -> Tensor:
            return operator.add(self.point(x), self.thin(x))

    model = network(Shortcut(), Shortcut())
    found, _ = in_columns(model)
    assert torch.allclose(found(X), model(X), atol=1e-5)
