import logging

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from anisocert import Gaussian, Plan, certify
from anisocert.engine import Network, Numerics
from anisocert.engine.given import frozen, own_copy
from anisocert.engine.rewriting import Graph, folding
from anisocert.engine.rewriting import _fusing as fusing
from anisocert.engine.rewriting._cudnn import ReluConv2d
from anisocert.engine.rewriting._layers import BlockConv2d, ColumnsConv2d
from anisocert.engine.rewriting._products import DenseConv2d, PatchConv2d, PointwiseConv2d, Product
from anisocert.engine.rewriting.folding import fold, fold_for_gradients, fold_lowered
from anisocert.engine.rewriting.lowering import Lowered, lower
from anisocert.errors import ModelError
from anisocert.models import build

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def settled(model: nn.Module, deep: bool = False) -> nn.Module:
    """With random statistics in every batch norm, in evaluation mode.

    deep: with small weights there, as scores would explode in fifty layers.
    """
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d | nn.SyncBatchNorm):
            if module.running_mean is not None:
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.3, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.2, 0.4) if deep else nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return model.eval()


def slope(scores, x: Tensor) -> Tensor:
    """Of the softmax of one class."""
    x.grad = None
    scores(x.requires_grad_(True)).softmax(1)[:, 3].sum().backward()
    return x.grad.clone()


def assert_same(model: nn.Module, shape: tuple[int, ...], tolerance: float = 1e-5) -> nn.Module:
    x = torch.randn(5, *shape, generator=torch.Generator().manual_seed(2))
    folded = fold(model, x[:2], "float32")
    with torch.no_grad():
        expected, got = model(x), folded(x)
    assert (got - expected).abs().max() <= tolerance * expected.abs().max().clamp_min(1)
    return folded


def assert_same_in_bfloat16(model: nn.Module, x: Tensor, lowered: Lowered) -> None:
    with torch.autocast("cpu", enabled=False):
        expected = model(x)
    scores = lowered(x)
    assert scores.dtype == torch.bfloat16
    assert (scores - expected).abs().max() <= 0.03 * (expected.max() - expected.min())


def layers(model: nn.Module, kind: type[nn.Module]) -> int:
    """How many layers of a kind a network calls; one inside of a `ColumnsConv2d` counts."""
    graph = model.network.graph if isinstance(model, Lowered) else model.graph
    called = {str(node.target) for node in graph.nodes if node.op == "call_module"}
    found = (graph.owning_module.get_submodule(name) for name in called)
    return sum(isinstance(one, kind) or isinstance(getattr(one, "wide", None), kind) for one in found)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "name", ["resnet18-paper", "resnet18", "resnet20", "wrn-40-2", "small-cnn", "efficientnet-lite0"]
)
def test_our_networks(name):
    model = settled(build(name, 10, (0.5,) * 3, (0.2,) * 3), deep=True)
    size = 16 if name == "wrn-40-2" else 33 if name.startswith("efficientnet") else 32  # their cost, not their kind
    folded = assert_same(model, (3, size, size), 1e-4)
    if name.startswith(("resnet", "efficientnet")):
        assert layers(folded, nn.BatchNorm2d) == 0


@pytest.mark.parametrize("name", ["resnet18-paper", "resnet20", "small-cnn"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gradients_to_the_input_stay_as_they_are(name, device, precision):
    model = settled(build(name, 10, (0.5,) * 3, (0.2,) * 3), deep=True).to(device)
    network = Network(model, 10, device, Numerics(precision, compile=False))
    x = torch.rand(4, 3, 32, 32, device=device)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # untrained scores hardly differ: TF32 does more
        expected, found = slope(model, x), slope(network.differentiable_scores, x)
    rounding = 0.3 if precision == "bfloat16" else 1e-2 if device == "cuda" else 1e-4
    assert (found - expected).norm() <= rounding * expected.norm()
    assert layers(network._gradients._plain[1], nn.BatchNorm2d) == 0
    lowered = {
        module.weight.dtype for module in network._gradients._plain[1].modules() if isinstance(module, nn.Conv2d)
    }
    assert lowered == {getattr(torch, precision)}


@pytest.mark.parametrize("gpu", [False, True])
def test_other_shapes_of_convolutions_have_the_same_gradients(monkeypatch, gpu):
    """What is compiled where a step's gradient is wanted, before it is compiled."""
    original = folding.reshape_convolutions
    monkeypatch.setattr(folding, "reshape_convolutions", lambda network, *_: original(network, gpu, "bfloat16"))
    model = settled(build("resnet18-paper", 10, (0.5,) * 3, (0.2,) * 3), deep=True)
    x = torch.rand(3, 3, 32, 32)
    folded = fold_for_gradients(model, x[:2], "float32", compiled=True)
    expected, found = slope(model, x), slope(folded, x)
    assert (found - expected).norm() <= 1e-4 * expected.norm()
    assert layers(folded, DenseConv2d) > 0
    assert (layers(folded, BlockConv2d) > 0) == (layers(folded, PointwiseConv2d) > 0) == gpu


@GPU
def test_a_compiled_step_has_the_same_gradients(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # ten bits, of which other kernels lose others
    model = settled(build("resnet18-paper", 10, (0.5,) * 3, (0.2,) * 3)).cuda()
    network = Network(model, 10, "cuda", Numerics("float32", compile=True, rows=160))
    network.fit((3, 32, 32), 0)
    x = torch.rand(96, 3, 32, 32, generator=torch.Generator().manual_seed(0)).cuda().requires_grad_(True)
    plain, compiled = (
        torch.autograd.grad(network.differentiable_scores(x, one_shape).softmax(1)[:, 3].sum(), [x])[0]
        for one_shape in (False, True)
    )
    off = (compiled - plain).flatten(1).norm(dim=1) / plain.flatten(1).norm(dim=1)
    assert float(off.quantile(0.9)) <= 1e-2  # the last digit may decide on which side of a kink a row is


class Viewing(nn.Module):
    """A network that flattens maps as `view` does, which no channels-last map allows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x).relu().view(len(x), -1))


def test_a_network_that_views_its_maps_has_gradients():
    network = Network(Viewing().eval(), 3, numerics=Numerics("float32", compile=False))
    x = torch.rand(2, 3, 8, 8, requires_grad=True)
    network.differentiable_scores(x)[:, 0].sum().backward()
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.BatchNorm2d, nn.SyncBatchNorm])
def test_batch_norm_goes_into_the_convolution(affine, bias, kind):
    conv = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=bias, groups=2)
    folded = assert_same(settled(nn.Sequential(conv, kind(4, affine=affine))), (2, 9, 7))
    assert layers(folded, kind) == 0


def test_in_float32_on_a_gpu_convolutions_stay_convolutions():
    """Of these cuDNN may round to TF32, as torch is told; products would follow another of its settings."""
    parts = [nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1), nn.Flatten()]
    found = []
    for precision in ("bfloat16", "float32"):
        network = folding._traced(nn.Sequential(*parts).eval(), torch.rand(2, 3, 8, 8), "float32")
        folding.reshape_convolutions(network, gpu=True, precision=precision)
        found.append(layers(network, nn.Conv2d))
    assert found == [0, 3]


class Shared(nn.Module):
    """One convolution at two places, a batch norm after each."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.one, self.two = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.conv(self.one(self.conv(x))))


class SharedNorm(nn.Module):
    """One batch norm after two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.norm = nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.two(self.norm(self.one(x))))


class Branching(nn.Module):
    """A convolution whose output is also used without the batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return y + self.norm(y)


class Tied(nn.Module):
    """The convolution's weights are read at another place as well."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, bias=False), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(self.norm(self.conv(x)), self.conv.weight)


class InPlace(nn.Module):
    """Code for its effect alone, which no later node of the traced graph seems to need."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x.mul_(3.0)
        return self.conv(x)


class Keywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.same = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.same(input=self.norm(input=self.conv(input=x)))


class Untraceable(Branching):
    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)) if float(x.sum()) > -1e9 else x


@pytest.mark.parametrize("kind", [Shared, SharedNorm, Branching, Tied, InPlace, Keywords, Untraceable])
def test_networks_that_must_be_left_alone_or_changed_with_care(kind):
    assert_same(settled(kind()), (3, 8, 8))


def test_untraceable_network_is_a_plain_copy(caplog):
    model = settled(Untraceable())
    with caplog.at_level(logging.INFO):
        copy = fold(model, torch.rand(2, 3, 8, 8), "float32")
    assert type(copy) is Untraceable
    assert copy is not model
    assert not any(p.requires_grad for p in copy.parameters())
    assert all(p.requires_grad for p in model.parameters())
    assert "not traced" in caplog.text


@pytest.mark.parametrize("where", ["root", "conv", "norm"])
def test_hooks_are_kept(where):
    model = settled(nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)))
    module = {"root": model, "conv": model[0], "norm": model[1]}[where]
    module.register_forward_hook(lambda module, inputs, output: 2 * output + 1)
    assert_same(model, (3, 8, 8))


def test_batch_norm_without_running_statistics_is_left():
    assert_same(nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3, track_running_stats=False)).eval(), (3, 8, 8))


# What is done for a GPU, with the one layer that needs it replaced by its definition


class PlainReluConv2d(nn.Module):
    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
        y = self.conv(x)
        return F.relu(y if shortcut is None else y + shortcut)


def assert_same_as_for_gpu(model: nn.Module, shape: tuple[int, ...], monkeypatch) -> fx.GraphModule:
    monkeypatch.setattr(fusing, "ReluConv2d", PlainReluConv2d)
    x = torch.randn(5, *shape)
    network = folding._traced(own_copy(model), x[:2], "float32")
    folding.reshape_convolutions(network, True, "bfloat16", lowered=True)
    folding.fuse_activations(network)
    network.recompile()
    network.graph.lint()
    with torch.no_grad():
        expected, got = model(x), network(x)
    assert (got - expected).abs().max() <= 1e-4 * expected.abs().max().clamp_min(1)
    return network


# Convolutions with a ReLU that are neither on maps of 2x2 and less nor 1x1 without a shortcut, for 32x32 images.
FUSED = {"resnet18-paper": 9, "resnet18": 17, "resnet50": 24}


@pytest.mark.parametrize("name", FUSED)
def test_our_networks_as_for_a_gpu(name, monkeypatch):
    model = build(name, 10, (0.5,) * 3, (0.2,) * 3).eval()
    network = assert_same_as_for_gpu(model, (3, 32, 32), monkeypatch)
    assert layers(network, PlainReluConv2d) == FUSED[name]
    assert layers(network, nn.BatchNorm2d) == 0
    assert layers(network, BlockConv2d) == (name != "resnet18")


class Block(nn.Module):
    """relu(sum), in the ways people write it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.conv, self.relu = how, nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(inplace=True)
        if how == "a leaky layer called relu":
            self.relu = nn.LeakyReLU(0.3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        match self.how:
            case "torchvision":
                y += x
                return self.relu(y)
            case "a leaky layer called relu":
                return self.relu(y)
            case "weighted":
                return F.relu(torch.add(y, x, alpha=2))
            case "broadcast":
                return F.relu(y + x.mean((2, 3), keepdim=True))
            case "twice itself":
                return F.relu(y + y)
            case "constant":
                return F.relu(y + 1.0)
            case "used before the sum":
                return F.relu(y + x) + y
            case "used before the relu":
                return F.relu(y) - y
            case "relu as a method":
                return y.relu() + self.relu(x.clone())
            case _:
                return torch.relu(x - y)


@pytest.mark.parametrize(
    ("how", "fused"),
    [
        ("torchvision", 1),
        ("relu as a method", 1),
        ("a leaky layer called relu", 0),
        ("weighted", 0),
        ("broadcast", 0),
        ("twice itself", 0),
        ("constant", 0),
        ("used before the sum", 0),
        ("used before the relu", 0),
        ("difference", 0),
    ],
)
def test_relus_go_into_convolutions_only_where_they_may(how, fused, monkeypatch):
    network = assert_same_as_for_gpu(Block(how).eval(), (3, 12, 12), monkeypatch)
    assert layers(network, PlainReluConv2d) == fused


def test_maps_after_a_pooled_stem_have_their_own_size(monkeypatch):
    stem = [nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    model = nn.Sequential(*stem, nn.Conv2d(4, 4, 3, padding=1), nn.Flatten()).eval()
    network = assert_same_as_for_gpu(model, (3, 4, 4), monkeypatch)  # 2x2 after the convolution, 1x1 after the pool
    assert layers(network, DenseConv2d) == 1
    assert layers(network, nn.MaxPool2d) == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="what is rewritten for a GPU runs on one")
@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_our_networks_on_a_gpu(name, bfloat16):
    model = build(name, 10, (0.5,) * 3, (0.2,) * 3).eval().cuda()
    x = torch.rand(64, 3, 32, 32, device="cuda")
    folded = (fold_lowered(model, x[:2]) if bfloat16 else fold(model, x[:2], "float32")).to(
        memory_format=torch.channels_last
    )
    with torch.no_grad():
        expected, got = model(x), folded(x)
    spread = expected.max() - expected.min()
    assert (got.float() - expected).abs().max() <= (0.1 if bfloat16 else 0.01) * spread
    assert layers(folded, ReluConv2d) == (FUSED[name] if bfloat16 else 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "compile_", [lambda model, x: torch.jit.trace(model, x), lambda model, _: torch.jit.script(model)]
)
def test_torchscript_is_copied_without_gradients(compile_):
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
    x = torch.rand(2, 1, 4, 4)
    script = compile_(model, x)
    for copied in (fold(script, x, "float32"), frozen(script, torch.device("cpu"), named=False)):
        assert not any(parameter.requires_grad for parameter in copied.parameters())
        assert torch.equal(copied(x), model(x))
    one, other = (
        certify(each, x.numpy(), smoothing=Gaussian(0.25), plan=Plan(n0=50, n=200), num_classes=3)[0]
        for each in (script, model)
    )
    assert (one.prediction, one.top_votes) == (other.prediction, other.top_votes)
    assert all(parameter.requires_grad for parameter in script.parameters())


def test_a_network_that_fails_on_the_sample_prints_nothing(capsys):
    """torch.fx writes a traceback to stderr before it raises: of a call that succeeds, nobody wants one."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).bfloat16().eval()
    assert isinstance(fold(model, torch.rand(2, 1, 4, 4), "float32"), nn.Sequential)
    assert capsys.readouterr() == ("", "")


class NormAct(nn.BatchNorm2d):
    """A batch norm as timm writes it: a check, the function, an activation."""

    def forward(self, x: Tensor) -> Tensor:
        torch._assert(x.ndim == 4, f"expected 4 axes, got {x.ndim}")
        mean, variance = self.running_mean, self.running_var
        return F.relu(F.batch_norm(x, mean, variance, self.weight, self.bias, False, 0.1, self.eps))


class SwappedNorm(nn.BatchNorm2d):
    """The other function of that name, whose arguments have another order."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.batch_norm(
            x, self.weight, self.bias, self.running_mean, self.running_var, False, 0.1, self.eps, True
        )


@pytest.mark.parametrize("kind", [NormAct, SwappedNorm])
def test_batch_norms_written_as_functions(kind):
    folded = assert_same(settled(nn.Sequential(nn.Conv2d(3, 5, 3), kind(5, eps=0.1))), (3, 8, 8), 1e-4)
    functions = [node.target for node in folded.graph.nodes if node.op == "call_function"]
    assert not {F.batch_norm, torch.batch_norm, torch._assert}.intersection(functions)


class BatchStatistics(nn.BatchNorm2d):
    """Writes to copies of its statistics, which would be constants of a graph."""

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean.clone(), self.running_var.clone(), training=True)


def test_a_graph_whose_constants_would_change_is_none():
    model = settled(nn.Sequential(nn.Conv2d(3, 5, 3), BatchStatistics(5)))
    assert not isinstance(fold(model, torch.rand(2, 3, 8, 8), "float32"), Graph)


class McDropout(nn.Dropout):
    """Not what its base class does in evaluation mode."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def test_only_what_does_nothing_is_dropped():
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Dropout(0.5), McDropout(0.5), nn.Identity()).eval()
    folded = assert_same(model, (3, 8, 8))
    assert [node.op for node in folded.graph.nodes].count("call_module") == 1


class Mixed(nn.Module):
    """Patches, tokens with a position, a norm, a GELU, groups, and a constant that two places read."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.thin = nn.Conv2d(3, 16, 2, 2), nn.Conv2d(16, 16, 3, padding=1)
        self.groups = nn.Conv2d(16, 18, 1)
        self.group, self.norm = nn.Conv2d(18, 18, 3, padding=1, groups=3), nn.LayerNorm(18)
        self.up, self.down = nn.Linear(18, 24), nn.Linear(24, 18)
        self.position = nn.Parameter(torch.randn(16, 18))
        self.head = nn.Linear(18, 4)
        self.register_buffer("mean", torch.rand(3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.mean) / (self.mean + 0.5)
        y = self.patch(x + 0.1)
        y = F.relu(y + self.thin(y))
        y = F.relu(self.group(self.groups(y)))
        tokens = y.flatten(2).transpose(1, 2) + self.position
        tokens = tokens + self.down(F.gelu(self.up(self.norm(tokens))))
        return self.head(tokens.mean(1)) + self.mean.mean()


def test_a_network_with_everything_as_for_a_gpu(monkeypatch):
    network = assert_same_as_for_gpu(Mixed().eval(), (3, 8, 8), monkeypatch)
    assert (layers(network, PatchConv2d), layers(network, ColumnsConv2d)) == (1, 2)
    assert sum(one.activation == "gelu" for one in network.modules() if isinstance(one, Product)) == 1
    assert not any(one.groups > 1 for one in network.modules() if type(one) is nn.Conv2d)
    assert layers(network, PlainReluConv2d) == 2


def test_a_network_in_bfloat16_throughout():
    """The scores are those of the model up to bfloat16; what comes before the first layer is computed in float32."""
    model, x = Mixed().eval().requires_grad_(False), torch.rand(64, 3, 8, 8)
    network = folding._traced(own_copy(model), x[:2], "float32")
    lower(network)
    network.recompile()
    seen = {}
    for name in ("patch", "down"):
        network.get_submodule(name).register_forward_hook(lambda _, args, __, n=name: seen.update({n: args[0]}))
    with torch.autocast("cpu", torch.bfloat16):
        assert_same_in_bfloat16(model, x, Lowered(network))
    assert seen["down"].dtype == torch.bfloat16
    front = (x - model.mean) / (model.mean + 0.5) + 0.1
    assert torch.equal(seen["patch"], front.bfloat16())  # rounded once, not after every step
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_what_cannot_be_put_into_bfloat16():
    with pytest.raises(ModelError, match="can be traced"):
        fold_lowered(settled(Untraceable()), torch.rand(2, 3, 8, 8))

    class Twice(nn.Module):
        """One norm before and after the first product."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.linear(self.norm(x)))

    with pytest.raises(ModelError, match="norm before"):
        fold_lowered(Twice().eval(), torch.rand(2, 4))


class Centring(nn.Module):
    """Inputs that are large beside their differences, centred in one of several ways before the first product."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.linear = how, nn.BatchNorm1d(2), nn.Linear(2, 5)
        self.norm.running_mean.copy_(torch.tensor([-122.4, 37.7]))
        self.norm.running_var.fill_(0.05**2)
        self.register_buffer("mean", torch.tensor([-122.4, 37.7]))
        self.table = nn.Embedding(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "batch norm":
                x = self.norm(x)
            case "flattened":
                x = (x.flatten(1) - self.mean) / 0.05
            case "in place":
                x = x.clone()
                x.sub_(self.mean).div_(0.05)
            case "waves":
                x = torch.sin(40 * x)
            case "numbers":
                x = self.table((x.sum(1).add(84.7) * 8).clamp(0, 15.999).long())
        return self.linear(x)


@pytest.mark.parametrize("how", ["batch norm", "flattened", "in place", "waves", "numbers"])
def test_nothing_is_rounded_before_the_first_product(how):
    model = Centring(how).eval().requires_grad_(False)
    x = torch.tensor([-122.4, 37.7]) + 0.05 * torch.randn(500, 2)
    assert_same_in_bfloat16(model, x, fold_lowered(model, x[:2]))


class Widening(nn.Module):
    """Computes something in float32 between two products, by its own wish."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.one, self.two = how, nn.Linear(8, 8), nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        match self.how:
            case "a sum with the input":
                y = x + y
            case "a softmax":
                y = F.softmax(y.float(), -1)
            case "a norm of CLIP's":
                y = F.layer_norm(y.type(torch.float32), (8,), self.scale).type(y.dtype)
            case "a norm":
                y = F.rms_norm(y, (8,), self.scale)
        return self.two(y)


@pytest.mark.parametrize("how", ["a sum with the input", "a softmax", "a norm of CLIP's", "a norm"])
def test_what_is_wide_between_products_is_rounded_for_the_next(how):
    model, x = Widening(how).eval().requires_grad_(False), torch.randn(64, 8)
    assert_same_in_bfloat16(model, x, fold_lowered(model, x[:2]))


class Multiplying(nn.Module):
    """Products other than those of layers."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.weight = how, nn.Parameter(torch.randn(12, 12) / 4)
        self.kernel = nn.Parameter(torch.randn(3, 12, 2, 2) / 4)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        match self.how:
            case "linalg":
                return torch.linalg.matmul(flat, self.weight)
            case "tensordot":
                return torch.tensordot(flat, self.weight, 1)
            case "several":
                return torch.linalg.multi_dot([flat, self.weight, self.weight])
        return F.conv_transpose2d(x, self.kernel, stride=2).mean((2, 3))


@pytest.mark.parametrize("how", ["linalg", "tensordot", "transposed"])
def test_other_products_are_in_bfloat16_too(how):
    model, x = Multiplying(how).eval().requires_grad_(False), torch.randn(64, 3, 2, 2)
    assert_same_in_bfloat16(model, x, fold_lowered(model, x[:2]))


def test_attention_that_torch_widens_by_itself_is_no_product_of_weights():
    class Attending(nn.Module):
        """Without an axis of heads, for which there is no fused kernel."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(8, 24), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            return self.last(F.scaled_dot_product_attention(y[..., :8], y[..., 8:16], y[..., 16:]).mean(1))

    model, x = Attending().eval().requires_grad_(False), torch.randn(32, 5, 8)
    assert_same_in_bfloat16(model, x, fold_lowered(model, x[:2]))


def test_a_product_that_would_be_left_in_float32_is_found():
    with pytest.raises(ModelError, match="expected all products in bfloat16, got mm in float32"):
        fold_lowered(Multiplying("several").eval().requires_grad_(False), torch.randn(2, 3, 2, 2))


class Changing(nn.Module):
    """A shortcut that is computed before its input is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.main = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 1
        short = self.short(x)
        y = self.main(F.relu(x, inplace=True))
        return F.relu(short + 2 * y) + F.relu(y + short)


class ChangingBetween(Changing):
    def forward(self, x: Tensor) -> Tensor:
        x = x - 1
        short = self.short(x)
        return F.relu(short + self.main(F.relu(x, inplace=True)))


@pytest.mark.parametrize("kind", [Changing, ChangingBetween])
def test_no_layer_is_moved_past_a_change_in_place(kind, monkeypatch):
    assert_same_as_for_gpu(kind().eval(), (3, 12, 12), monkeypatch)


def test_a_layer_with_a_forward_of_its_own_is_left(monkeypatch):
    model = nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU()).eval()
    model[1].forward = lambda x: x.clamp(0, 0.1)
    network = assert_same_as_for_gpu(model, (3, 8, 8), monkeypatch)
    assert layers(network, PlainReluConv2d) == 0


def test_a_copy_that_shares_weights_is_refused():
    class Itself(nn.Linear):
        def __deepcopy__(self, memo):
            return self

    model = Itself(4, 3).eval()
    with pytest.raises(ModelError, match="its copy shares weights with it"):
        fold(model, torch.rand(2, 4), "float32")
    given, before = {"smoothing": Gaussian(0.3), "plan": Plan(n0=20, n=100), "num_classes": 3}, model.weight.clone()
    with pytest.raises(ModelError, match=r"its copy shares weights with it.*--model-id"):
        certify(model, torch.rand(1, 4), **given)
    certify(model, torch.rand(1, 4), model_id="itself", **given)
    assert torch.equal(model.weight, before)
    assert model.weight.requires_grad


def test_a_copy_that_shares_what_is_no_weight_is_refused():
    class Itself(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("fitted", torch.rand(4, 3))

        def __deepcopy__(self, memo):
            return self

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.fitted

    with pytest.raises(ModelError, match=r"its copy shares weights with it.*--model-id"):
        certify(Itself().eval(), torch.rand(1, 4), smoothing=Gaussian(0.3), plan=Plan(n0=20, n=100), num_classes=3)
