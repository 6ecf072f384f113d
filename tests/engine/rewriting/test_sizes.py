"""Networks that decide by the sizes of their maps: traced for inputs of one shape, in batches of any size."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch._subclasses import FakeTensor

from anisocert.engine import Network, Numerics
from anisocert.engine.rewriting import folding
from anisocert.engine.rewriting._sizes import SizesTracer
from anisocert.engine.rewriting.tracing import Graph, traced
from anisocert.errors import ArgumentError, ModelError

SEEN = list[object]()


@fx.wrap
def kept(x: Tensor) -> Tensor:
    SEEN.append(x)
    return x * 2


class Deciding(nn.Module):
    """What it does besides a convolution, by name."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.biases = how, dict[str, Tensor]()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)
        self.bias = nn.Parameter(torch.randn(8, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x)).relu()
        match self.how:
            case "sizes":
                rows, _, height, width = x.shape
                if height > 4 and int(width) % 2 == 0 and x.dim() == 4:
                    x = x.view(rows, 8, height // 2, 2, width).mean(3)
                x = x.reshape(x.size(0) * 2, 4, -1).view(rows, 8, *x.shape[2:])
            case "device":
                key = str(x.device)
                if key not in self.biases:
                    self.biases[key] = self.bias * 2
                x = x + self.biases[key]
            case "wrapped":
                x = kept(x) if x.shape[-1] > 4 else x
            case "rows":
                x = x * 2 if x.shape[0] > 4 else x
            case "first rows":
                x = x * x[:4].shape[0] if x.shape[-1] > 4 else x
            case "later rows":
                x = x * (1 + x[128:].shape[0]) if x.shape[-1] > 4 else x
            case "in hundreds":
                x = x * F.pad(x, [0] * 7 + [-len(x) % 128]).shape[0] if x.shape[-1] > 4 else x
            case "squeezed":
                pooled = x.mean((2, 3)).squeeze() if x.shape[-1] > 4 else x
                return self.head(pooled.unsqueeze(0) if pooled.dim() == 1 else pooled)
        return self.head(x.mean((2, 3)))


def made(how: str) -> nn.Module:
    torch.manual_seed(0)
    model = Deciding(how)
    model.norm.running_mean.normal_()
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("how", ["sizes", "device", "wrapped"])
def test_they_are_traced_and_stay_what_they_are(how):
    model, x = made(how), torch.rand(9, 3, 8, 6)
    SEEN.clear()
    form = folding.fold(model, x[:2], "float32")
    assert isinstance(form, Graph)
    assert "norm" not in [node.target for node in form.graph.nodes], "it is folded"
    for rows in (1, 2, 5, 9):
        torch.testing.assert_close(form(x[:rows]), model(x[:rows]))
    assert not [one for one in SEEN if isinstance(one, FakeTensor)]
    assert not [one for one in model.biases.values() if isinstance(one, FakeTensor)]


def test_what_depends_on_the_batch_is_not_told():
    sample = torch.rand(2, 3, 8, 6)
    with pytest.raises((ModelError, fx.proxy.TraceError)):
        traced(made("rows"), sample, SizesTracer(sample))
    assert not isinstance(folding.fold(made("rows"), sample, "float32"), Graph)


@pytest.mark.parametrize("how", ["first rows", "later rows", "in hundreds", "squeezed"])
def test_what_is_the_same_in_most_batches_is_right_in_all(how):
    model, x = made(how), torch.rand(300, 3, 8, 6)
    form = folding.fold(model, x[:2], "float32")
    for rows in (1, 2, 3, 5, 128, 300):
        torch.testing.assert_close(form(x[:rows]), model(x[:rows]))


KEPT = dict[tuple[int, ...], Tensor]()


def scale(_module: nn.Module, _given: object, made: Tensor) -> Tensor:
    shape = tuple(made.shape)
    if shape not in KEPT:
        KEPT[shape] = torch.linspace(0.5, 1.5, shape[-1])
    return made * KEPT[shape]


def test_hooks_of_layers_are_not_given_what_has_no_values():
    model = made("sizes")
    model.conv.register_forward_hook(scale)
    folding.fold(model, torch.rand(2, 3, 8, 6), "float32")
    assert KEPT
    assert not [one for one in KEPT.values() if isinstance(one, FakeTensor)]


def test_inputs_of_another_shape_are_another_graph():
    model = made("sizes")
    network = Network(model, 4, "cpu", Numerics("float32", False, 32))
    for shape in ((3, 8, 6), (3, 10, 4), (3, 3, 3)):
        x = torch.rand(5, *shape)
        found, expected = (x.clone().requires_grad_(True) for _ in range(2))
        network.differentiable_scores(found).square().sum().backward()
        model(expected).square().sum().backward()
        torch.testing.assert_close(found.grad, expected.grad)
        network.fit(shape, 0)
        torch.testing.assert_close(network.scores(x), model(x))
    with pytest.raises(ArgumentError, match=r"expected inputs, \(3, 3, 3\), got \(3, 8, 6\)"):
        network.scores(torch.rand(5, 3, 8, 6))
