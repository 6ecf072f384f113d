"""Ways in which a graph, or another layout, would be another network than the model: then the model runs as it is."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from anisocert.engine import Network, Numerics
from anisocert.errors import ModelError

SHAPE = (1, 6, 6)
FAR = 50.0  # no trial input has a value as large


def turned(x: Tensor) -> Tensor:
    return torch.where(x.abs().amax((1, 2, 3), keepdim=True) > FAR, -x, x)


def by_match(model: "Odd", x: Tensor) -> Tensor:
    match (x.abs().max() > FAR).item():
        case True:
            return model.body(turned(x))
    return model.body(x)


def by_list(model: "Odd", x: Tensor) -> Tensor:
    values = x.flatten().tolist()
    return model.body(turned(x) if isinstance(values, list) and max(values) > FAR else x)


def by_array(model: "Odd", x: Tensor) -> Tensor:
    values = x.numpy()
    return model.body(turned(x) if isinstance(values, np.ndarray) and values.max() > FAR else x)


def by_memory(model: "Odd", x: Tensor) -> Tensor:
    values = [0.0]
    if isinstance(x, Tensor):
        values = list((ctypes.c_float * x.numel()).from_address(x.storage().data_ptr()))
    return model.body(turned(x) if max(values) > FAR else x)


def by_count(model: "Odd", x: Tensor) -> Tensor:
    return model.body(turned(x) if (x > FAR).nonzero().shape[0] in {*range(1, 3000)} else x)


def of_an_array(model: "Odd", x: Tensor) -> Tensor:
    x = x.new_tensor(np.clip(x.numpy(), -1000, 1000)) if isinstance(x, Tensor) else x
    return model.body(turned(x) if isinstance(x, Tensor) else x)


def another_returned(model: "Odd", x: Tensor) -> Tensor:
    one, other = model.body(turned(x)), model.body(x)
    return one if isinstance(x, Tensor) else other


def another_result(model: "Odd", x: Tensor) -> Tensor:
    low, high = torch.aminmax(F.relu(x - FAR).flatten(1), dim=1)
    return model.body(x - (high if isinstance(x, Tensor) else low).view(-1, 1, 1, 1))


def promoted(model: "Odd", x: Tensor) -> Tensor:
    count = (x.flatten(1) > FAR).sum(1).to(torch.uint8) * 200
    count += (x.flatten(1) > FAR).sum(1).to(torch.int32) * 200  # 144 in place, where a sum is 400
    return model.body(x - count.float().view(-1, 1, 1, 1))


def seeded(model: "Odd", x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return model.body(x + F.relu(x - FAR) * torch.rand_like(x))


def through_a_view(model: "Odd", x: Tensor) -> Tensor:
    y = model.maps(x)
    y.reshape(y.shape[0], -1).clamp_(-FAR, FAR)
    return model.head(y)


def through_flat(model: "Odd", x: Tensor) -> Tensor:
    y = model.maps(x)
    flat = y.flatten(1)
    flat[flat.abs() > FAR] = 0.0
    return model.head(y)


def through_contiguous(model: "Odd", x: Tensor) -> Tensor:
    y = model.maps(x)
    y.contiguous().clamp_(-FAR, FAR)
    return model.head(y)


def read_through_a_view(model: "Odd", x: Tensor) -> Tensor:
    y = model.maps(x)
    seen = y.flatten(1)
    y.clamp_(-FAR, FAR)
    return model.head(seen.view(-1, 4, 4, 4))


Forward = Callable[["Odd", Tensor], Tensor]


class Odd(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.called = forward
        self.maps = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3))
        self.head = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))

    def body(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.maps(x))
        return scores

    def forward(self, x: Tensor) -> Tensor:
        return self.called(self, x)


def far() -> Tensor:
    x = torch.rand(64, *SHAPE, generator=torch.Generator().manual_seed(0))
    x[::3, 0, 0, 0] = 200.0
    x[1::3] *= 1000.0
    return x


@pytest.mark.parametrize(
    "forward",
    [
        by_match, by_list, by_array, by_memory, by_count, of_an_array, another_returned, another_result, promoted,
        seeded, through_a_view, through_flat, through_contiguous, read_through_a_view,
    ],
)  # fmt: skip
def test_what_a_graph_or_a_layout_would_change_runs_as_it_is(forward):
    model = Odd(forward).eval()
    network = Network(model, 5, numerics=Numerics("float32", False, 64))
    network.fit(SHAPE, 64)
    assert not isinstance(network._run, fx.GraphModule)
    with torch.no_grad():
        expected, plain = model(far()), model.body(far())
    torch.testing.assert_close(network.scores(far()), expected)
    assert not torch.allclose(expected, plain, rtol=1e-3), "the case is none"
    with torch.no_grad():
        torch.testing.assert_close(network.differentiable_scores(far()), expected)


def test_its_own_autocast_is_kept():
    def partly(model: Odd, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return model.body(x.float())

    network = Network(Odd(partly).eval(), 5, numerics=Numerics("bfloat16", False, 64))
    network.fit(SHAPE, 64)
    assert not isinstance(network._run, fx.GraphModule)
    with torch.no_grad():
        torch.testing.assert_close(network.scores(far()), Odd(partly).body(far()))


@pytest.mark.parametrize("rows", [32, 64, 160])
def test_scores_that_depend_on_the_size_of_a_batch_are_refused(rows):
    def by_size(model: Odd, x: Tensor) -> Tensor:
        return -model.body(x) if x.shape[0] == rows else model.body(x)

    with pytest.raises(ModelError, match="change with the size of a batch"):
        Network(Odd(by_size).eval(), 5, numerics=Numerics("float32", False, rows)).fit(SHAPE, 64)


def test_company_of_large_values_is_tried():
    def by_largest(model: Odd, x: Tensor) -> Tensor:
        return model.body(x * (255 / x.abs().max().clamp(min=255)))

    with pytest.raises(ModelError, match="change with the rest of the batch"):
        Network(Odd(by_largest).eval(), 5, numerics=Numerics("float32", False, 64)).fit(SHAPE, 64)
