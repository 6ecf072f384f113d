"""A graph is the network on every input, or there is none."""

import logging
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from anisocert.engine import Network, Numerics
from anisocert.engine.launching.replaying import replayable
from anisocert.engine.rewriting._state import state
from anisocert.engine.rewriting.graph import in_place
from anisocert.engine.rewriting.tracing import Graph, traced
from anisocert.errors import ModelError

SHAPE = (1, 6, 6)
FAR = 50.0  # no trial input has a value as large


class Guarded(nn.Module):
    """Answers otherwise where a value is larger than FAR, by code that a tracer may be led around."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.body = how, nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
        self.one, self.other = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "isinstance":
                x = self._guarded(x) if isinstance(x, Tensor) else x
            case "type":
                x = self._guarded(x) if type(x) is Tensor else x
            case "is_tensor":
                x = self._guarded(x) if torch.is_tensor(x) else x
            case "not when traced":
                x = x if fx._symbolic_trace._is_fx_tracing_flag else self._guarded(x)
            case "caught":
                with suppress(TypeError):
                    x = self._guarded(x) if float(x.abs().max()) > 0 else x
            case "listed":
                x = self._turned(x, np.array(x.tolist()).max((1, 2, 3))) if isinstance(x, Tensor) else x
            case "read as text":  # one number is large enough to be written otherwise
                x = self._guarded(x) if "e+" in str(100 * x.detach()) else x
            case "applied":
                values = list[float]()
                if isinstance(x, Tensor):
                    x.apply_(lambda one: values.append(one) or one)
                    x = self._turned(x, np.reshape(values, (len(x), -1)).max(1))
            case "an error of ours":
                with suppress(ModelError):
                    x = self._turned(x, x.numpy().max((1, 2, 3))) if isinstance(x, Tensor) else x
            case "another number":
                x = x + (2 if isinstance(x, Tensor) else 1) * F.relu(x - FAR)
            case "another weight":
                x = x + (self.one if isinstance(x, Tensor) else self.other) * F.relu(x - FAR)
            case "another part":
                left, right = F.relu(x - FAR).chunk(2, 3)
                x = x - torch.cat([left if isinstance(x, Tensor) else right, right], 3)
            case "in place, behind a view":
                seen = x.flatten(1)
                x -= 2 * F.relu(x - FAR)  # torch.fx makes a sum of it that is not in place
                x = seen.view(x.shape)
            case "plain":
                x = self._guarded(x)
            case "in place":
                x = x.clone()
                x -= 2 * F.relu(x - FAR)
        return self.body(x)

    def _turned(self, x: Tensor, largest: Iterable[float]) -> Tensor:
        signs = [-1.0 if one > FAR else 1.0 for one in largest]
        return x * torch.tensor(signs).view(-1, 1, 1, 1) if min(signs) < 0 else x  # no operator for trial inputs

    def _guarded(self, x: Tensor) -> Tensor:
        return torch.where(x.abs().amax((1, 2, 3), keepdim=True) > FAR, -x, x)


def _network(model: nn.Module) -> Network:
    network = Network(model.eval(), 5, numerics=Numerics("float32", rows=32))
    network.fit(SHAPE, 64)
    return network


LED_AROUND = ["isinstance", "type", "is_tensor", "not when traced", "caught", "listed", "applied"]
OTHERS = [
    "read as text",
    "an error of ours",
    "another number",
    "another weight",
    "another part",
    "in place, behind a view",
]


@pytest.mark.parametrize("how", [*LED_AROUND, *OTHERS])
def test_code_that_knows_a_tracer_is_not_traced(how, caplog):
    torch.manual_seed(0)
    model = Guarded(how)
    x = torch.rand(32, *SHAPE)
    x[:, 0, 0, 0] = 2 * FAR
    with caplog.at_level(logging.INFO, "anisocert.engine"):
        network = _network(model)
    assert "not traced, so it stays as it is" in caplog.text
    with torch.no_grad():
        torch.testing.assert_close(network.scores(x.clone()), model(x.clone()))
        plain = Guarded("nothing").eval()
        plain.load_state_dict(model.state_dict())
        assert not torch.allclose(model(x.clone()), plain(x.clone())), "the case is none"


@pytest.mark.parametrize("how", ["plain", "in place"])
def test_what_has_the_same_operations_is_traced(how):
    assert isinstance(_network(Guarded(how))._run, fx.GraphModule)


class Slots:
    __slots__ = "calls"

    def __init__(self) -> None:
        self.calls = 0


class Changing(nn.Module):
    """Changes as it runs."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.body, self.calls = how, nn.Sequential(nn.Flatten(), nn.Linear(36, 5)), 0
        self.register_buffer("seen", torch.zeros(()))
        self.kept, self.plain, self.cached = list[int](), torch.zeros(()), dict[str, Tensor]()
        self.counts, self.array, self.space = [0], np.zeros(1), SimpleNamespace(calls=0)
        self.few, self.slots, self.counter = deque([0], 1), Slots(), count()

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "number":
                self.calls += 1
            case "in place":
                self.seen.add_(1)
            case "assigned":
                self.seen = 0.9 * self.seen + x.mean()
            case "kept":
                self.kept.append(0)
            case "plain tensor":
                self.plain.add_(1)
            case "counted in a list":
                self.counts[0] += 1
            case "array":
                self.array += 1
            case "space":
                self.space.calls += 1
            case "few":
                self.few.append(self.few[-1] + 1)
            case "slots":
                self.slots.calls += 1
            case "counter":
                next(self.counter)
            case "data":
                self.seen.data.add_(1)
            case "cached":
                self.cached.setdefault("half", torch.full((), 0.5))
        return self.body(x)


CHANGES = ["number", "in place", "assigned", "kept", "plain tensor", "data"]
IN_OBJECTS = ["counted in a list", "array", "space", "few", "slots", "counter"]


@pytest.mark.parametrize("how", [*CHANGES, *IN_OBJECTS])
def test_a_network_that_changes_itself_is_not_traced(how):
    with pytest.raises(ModelError, match="its forward changes it"):
        traced(Changing(how).eval(), torch.rand(2, *SHAPE))
    run = _network(Changing(how))._run
    assert not isinstance(run, fx.GraphModule)
    assert all(isinstance(tensor, Tensor) for tensor in run.buffers())  # and what runs was never traced


def test_a_network_that_keeps_what_it_needs_is_traced():
    assert isinstance(_network(Changing("cached"))._run, fx.GraphModule)


def test_objects_that_share_others_are_looked_at_once():
    model, node = Changing("nothing").eval(), SimpleNamespace()
    for _ in range(60):  # two ways to each of the last one's, 2^60 to the first
        node = SimpleNamespace(left=node, right=node)
    model.space = node
    assert state(model) == state(model)
    assert isinstance(traced(model, torch.rand(2, *SHAPE)), Graph)


class Common(nn.Module):
    """What networks do: sums in place, constants made in forward, positions from a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(144, 5)
        self.register_buffer("position", torch.arange(36.0).view(6, 6) / 36)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y += x
        y = y + self.position * torch.tensor(0.5) + torch.arange(6)
        return self.head(F.relu(y, inplace=True).flatten(1))


def test_sums_in_place_and_constants_are_traced():
    x = torch.rand(2, *SHAPE)
    model = Common().eval()
    with torch.no_grad():
        torch.testing.assert_close(traced(model, x)(x), model(x))


class Capping(nn.Module):
    """Writes through a view, which in another layout is a copy: where values are large that would cap nothing."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 36, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y.reshape(x.shape[0], -1).clamp_(max=40.0)
        return self.head(y.flatten(1))


def _exported(model: nn.Module) -> nn.Module:
    free = ({0: torch.export.Dim.DYNAMIC},)
    return torch.export.export(model, (torch.rand(2, *SHAPE),), dynamic_shapes=free).module()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("made", [lambda model: model, fx.symbolic_trace, _exported])
def test_a_graph_that_tracing_refuses_stays_as_it_is(made):
    model, x = Capping().eval().requires_grad_(False), 60 * torch.randn(32, *SHAPE)
    network = Network(made(model), 5, numerics=Numerics("float32", rows=32))
    network.fit(SHAPE, 64)
    torch.testing.assert_close(network.scores(x.clone()), model(x))
    assert isinstance(network._run, nn.Module)
    assert not replayable(network._run)


class Asking(nn.Module):
    """Keeps maps within what half precision holds, where autocast is on, as transformers' models do."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.one, self.two = how, nn.Linear(12, 32), nn.Linear(32, 4)
        self.register_buffer("left", torch.randn(12, 3))
        self.register_buffer("right", torch.randn(3, 12))

    def forward(self, x: Tensor) -> Tensor:
        asked = torch.is_autocast_enabled("cpu")
        if self.how == "constants":
            x = x @ (self.left @ self.right)
        elif self.how == "types" and asked:
            x = x.to(torch.bfloat16)
        y = torch.relu(self.one(x))
        return self.two(y.clamp(max=40.0) if self.how == "values" and asked else y)


@pytest.mark.parametrize("how", ["values", "types", "constants"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_autocast_changes_is_traced_as_it_votes(precision, how):
    model, x = Asking(how).eval().requires_grad_(False), 60 * torch.randn(64, 12)
    network = Network(model, 4, numerics=Numerics(precision, rows=32))
    network.fit((12,), 64)
    assert isinstance(network._run, Graph)
    with torch.autocast("cpu", torch.bfloat16, precision == "bfloat16"):
        expected = model(x)
    assert torch.equal(network.scores(x), expected)


@fx.wrap
def capped(x: Tensor) -> Tensor:
    return x.contiguous().clamp_(max=40.0)


class Aliasing(nn.Module):
    """Writes to what is its map in float32, and would be a copy of it in bfloat16."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.one, self.two = how, nn.Linear(12, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x) * 1.0
        match self.how:
            case "float":
                same = y.float()
            case "type":
                same = y.type(torch.float32)
            case "type_as":
                same = y.type_as(x)
            case "a part":
                same = y.to(torch.float32)[:, :4]
            case "turned":
                same = y.float().T
            case "its diagonal":
                same = y.float().diagonal()
            case "its halves":
                same = y.contiguous().hsplit(2)[0]
            case "itself":
                same = torch.positive(y.contiguous())
            case "not dropped":
                same = F.dropout(y.contiguous(), 0.5, self.training)
            case "the tensor":
                y.contiguous()
                same = y
            case "in a function":
                same = capped(y)
            case "for the result":
                same = y.contiguous()
                torch.clamp(same, max=40.0, out=same)
        same.clamp_(max=40.0)
        return self.two(y)


ALIASES = ["float", "type", "type_as", "a part", "turned", "its diagonal", "its halves", "itself", "not dropped"]


@pytest.mark.parametrize("how", [*ALIASES, "the tensor", "in a function", "for the result"])
def test_what_may_be_a_copy_is_not_written_to(how):
    with pytest.raises(ModelError, match="writes to what is a copy in one layout or type and none in another"):
        traced(Aliasing(how).eval().requires_grad_(False), torch.rand(2, 12))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_operators_of_a_program_that_write_are_known():
    graph = fx.Graph()
    x = graph.placeholder("x")
    written = graph.call_function(torch.ops.aten.clamp_.default, (x, 0.0))
    read = graph.call_function(torch.ops.aten.clamp.default, (x, 0.0))
    graph.output(written)
    assert [in_place(fx.GraphModule(nn.Module(), graph), node) for node in (written, read)] == [True, False]


class ByLayout(nn.Module):
    """What it computes depends on the layout of its maps, or of its buffers."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.conv, self.head = how, nn.Conv2d(2, 4, 3, padding=1), nn.Linear(4, 5)
        self.register_buffer("base", torch.rand(1, 2, 6, 6))

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "a constant":
            base = torch.clone(self.base.expand_as(x))
            base.flatten(1).add_(F.relu(x.flatten(1) - FAR))
            x = x + base
        y = self.conv(x)
        return self.head(torch.as_strided(y, (len(x), 4), (144, 1)) if self.how == "places" else y.mean((2, 3)))


@pytest.mark.parametrize("how", ["a constant", "places"])
def test_what_depends_on_a_layout_stays_in_it(how):
    model, x = ByLayout(how).eval().requires_grad_(False), 2 * FAR * torch.randn(32, 2, 6, 6)
    network = Network(model, 5, numerics=Numerics("float32", rows=32))
    network.fit([2, 6, 6], 64)
    torch.testing.assert_close(network.scores(x), model(x))


class Fitting(nn.Module):
    """Waits for a thread that traces another network."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Guarded("plain")

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor):
            with ThreadPoolExecutor(1) as pool, suppress(ModelError):
                pool.submit(traced, Guarded("plain").eval(), torch.rand(2, *SHAPE)).result()
        return self.body(x)


def test_who_traces_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr("anisocert.engine.rewriting.tracing.PATIENCE", 0.1)
    assert isinstance(traced(Fitting().eval(), torch.rand(2, *SHAPE)), Graph)


def test_threads_call_and_trace_beside_one_that_traces():
    model, x = Guarded("plain").eval().requires_grad_(False), torch.rand(2, *SHAPE)
    expected, tracing = model(x), True

    def call() -> int:
        calls = 0
        while tracing or calls < 5:
            assert torch.equal(model(x), expected)
            calls += 1
        return calls

    with ThreadPoolExecutor(3) as pool:
        calling = pool.submit(call)
        graphs = [pool.submit(traced, Guarded("plain").eval(), x) for _ in range(20)]
        try:
            assert all(isinstance(one.result(), Graph) for one in graphs)
        finally:
            tracing = False
        assert calling.result() >= 5


def tenth(_module: nn.Module, slopes: tuple[Tensor, ...], _out: object) -> tuple[Tensor, ...]:
    return slopes[0] / 10, *slopes[1:]


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_hooks_of_the_backward_pass_stay():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 5)).eval()
    model[1].register_backward_hook(tenth)
    x, slopes = torch.rand(8, *SHAPE), []
    for call in (model, Network(model, 5, numerics=Numerics("float32", rows=32)).differentiable_scores):
        leaf = x.clone().requires_grad_(True)
        slopes.append(torch.autograd.grad(call(leaf)[:, 0].sum(), [leaf])[0])
    torch.testing.assert_close(*slopes)
