"""Programs of torch.export, and other graphs, as networks."""

import copy
import sys
import zipfile

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import anisocert as ac
from anisocert.engine import Network, Numerics
from anisocert.engine.given import own_copy
from anisocert.engine.rewriting.folding import fold_lowered
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import ScoresOf, denoised, load

SHAPE = (1, 8, 8)
FREE = ({0: torch.export.Dim.DYNAMIC},)
QUICK = Numerics("float32", rows=32)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Small(nn.Module):
    """With a constant that is neither weight nor buffer."""

    def __init__(self, shift: float = 0.5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(256, 5)
        self.shift = torch.tensor(shift)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.dropout(F.relu(self.norm(self.conv(x + self.shift))), 0.1, self.training).flatten(1))


def _exported(model: nn.Module | None = None, free: bool = True, rows: int = 2) -> torch.export.ExportedProgram:
    x = (torch.rand(rows, *SHAPE),)
    return torch.export.export(model or Small().eval(), x, dynamic_shapes=FREE if free else None)


def _network(model: nn.Module) -> Network:
    network = Network(model, 5, numerics=Numerics("float32", rows=32))
    network.fit(SHAPE, 64)
    return network


def test_the_module_of_a_program_is_certified_as_the_network_that_was_exported():
    x, model = np.random.default_rng(0).random((2, *SHAPE), np.float32), Small().eval()
    told = {"num_classes": 5, "smoothing": ac.Gaussian(0.25), "plan": ac.Plan(n0=32, n=64)}
    networks = [_network(one) for one in (model, _exported(model).module())]
    for method in (ac.Fixed(), ac.Isotropic()):
        for own, exported in zip(*(ac.certify(one, x, method=method, **told) for one in networks), strict=True):
            assert own.prediction == exported.prediction
            assert abs(own.top_votes - exported.top_votes) <= 1


def test_programs_in_what_is_made_of_several_networks():
    x, one = np.zeros((1, *SHAPE), np.float32), _exported().module()
    book = ac.Codebook([0.5, 0.4, 0.3, 0.2, 0.1], 0.5)
    told = {"num_classes": 5, "smoothing": ac.Gaussian(0.5), "plan": ac.Plan(n0=32, n=64), "numerics": QUICK}
    coded = (ac.Coded(one, None, book), ac.Cascade()), (ac.Coded([one] * 5, one, book), ac.TwoStep())
    for model, method in (*coded, (denoised(one, nn.Identity().eval()), ac.Fixed())):
        (found,) = ac.certify(model, x, method=method, **told)
        assert found.prediction == int(one(torch.from_numpy(x)).argmax())


def test_gradients_and_bfloat16():
    module, x = _exported().module(), torch.rand(8, *SHAPE, requires_grad=True)
    _network(module).differentiable_scores(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    network = Network(module, 5, numerics=Numerics("bfloat16", rows=32))
    network.fit(SHAPE, 64)
    torch.testing.assert_close(network.scores(x.detach()).float(), module(x.detach()), atol=0.05, rtol=0.05)


def test_the_hash_covers_constants_and_weights_and_is_the_same_each_time(tmp_path):
    first, again, other = (Network(_exported(Small(s).eval()).module(), 5).hash for s in (0.5, 0.5, 0.25))
    assert first == again != other
    changed = _exported().module()
    with torch.no_grad():
        changed.get_parameter("head.bias")[0] += 1
    assert Network(changed, 5).hash != first
    torch.export.save(_exported(), tmp_path / "small.pt2")
    assert Network(torch.export.load(tmp_path / "small.pt2").module(), 5).hash == first


def test_operators_that_are_not_torchs_are_refused():
    with torch.library._scoped_library("anisocert_test", "FRAGMENT") as library:
        library.define("halved(Tensor x) -> Tensor")
        library.impl("halved", lambda x: x / 2, "CompositeExplicitAutograd")
        graph = fx.Graph()
        graph.output(graph.call_function(torch.ops.anisocert_test.halved.default, (graph.placeholder("x"),)))
        model = fx.GraphModule(nn.Module(), graph).eval()
        with pytest.raises(ModelError, match=r"anisocert_test\.halved\.default is an operator that is not torch's own"):
            Network(model, 5)


def test_a_program_exported_in_training_mode_is_refused():
    with pytest.raises(ModelError, match=r"got aten\.batch_norm\.default in training mode: call model\.eval\(\) befor"):
        Network(_exported(Small().train()).module(), 5)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_number_of_rows_that_is_baked_in(rows):
    with pytest.raises(ModelError, match=r"rows is baked into it; export it with a free one, by .*Dim\.DYNAMIC"):
        _network(_exported(free=False, rows=rows).module())


def test_inputs_of_another_size():
    network = Network(_exported().module(), 5, numerics=Numerics("float32", rows=32))
    with pytest.raises(ModelError, match=r"size\(\)\[2\] == 8: it was exported for inputs of another size$"):
        network.fit((1, 9, 9), 64)


def test_the_program_itself():
    with pytest.raises(ArgumentError, match=r"got an ExportedProgram: pass program\.module\(\)$"):
        Network(_exported(), 5)


def test_a_module_around_a_program():
    around = nn.Sequential(nn.Identity(), _exported().module())
    with pytest.raises(ModelError, match=r"training mode in Sequential: call copy\.deepcopy\(model\)\.eval\(\)"):
        Network(around, 5)
    x = torch.rand(4, *SHAPE)
    with torch.no_grad():
        torch.testing.assert_close(_network(copy.deepcopy(around).eval()).scores(x), Small().eval()(x))


def test_hooks_on_a_graph_are_refused_as_its_copies_lose_them():
    model = fx.symbolic_trace(Small().eval())
    Network(model, 5)
    model.register_forward_pre_hook(lambda module, given: (-given[0],))
    with pytest.raises(ModelError, match=r"no hooks on a module that torch\.fx or torch\.export made"):
        Network(model, 5)


@pytest.mark.parametrize("made", [fx.symbolic_trace, lambda model: _exported(model).module()])
def test_a_forward_that_was_replaced_on_a_graph_is_refused_as_its_copies_lose_it(made):
    model, other = made(Small().eval()), made(Small().eval())
    model.forward = lambda x: -other(x)
    around = nn.Sequential(nn.Identity(), model)
    for module in (around, around[0]):
        module.training = False
    for given in (model, around):
        with pytest.raises(ModelError, match=r"got one that was replaced, which copies of it lose: put what it does"):
            Network(given, 5)


def test_a_program_is_put_into_bfloat16():
    model, x = Small().eval().requires_grad_(False), torch.rand(16, *SHAPE)
    form = fold_lowered(own_copy(_exported(model).module()), x[:2])  # else an error: it would multiply in float32
    scores, expected = form(x), model(x)
    assert scores.dtype == torch.bfloat16
    assert (scores - expected).abs().max() <= 0.03 * (expected.max() - expected.min())


def test_a_frozen_script():
    model = Small().eval()
    x = torch.rand(4, *SHAPE)
    network = _network(torch.jit.freeze(torch.jit.trace(model, x)))
    torch.testing.assert_close(network.scores(x), model(x))


FUNCTIONS = """
import torch
from tests_exported import Small, _exported

def module(): return _exported().module()
def program(): return _exported()
def around(): return torch.nn.Sequential(torch.nn.Identity(), _exported().module())
def keyed():
    class Keyed(torch.nn.Module):
        def __init__(self): super().__init__(); self.inner = Small()
        def forward(self, x): return {"scores": self.inner(x)}
    return _exported(Keyed().eval()).module()
"""


@pytest.fixture
def _functions(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tests_exported", sys.modules[__name__])
    (tmp_path / "made_of_exports.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("made_of_exports", None)


@pytest.mark.usefixtures("_functions")
def test_functions_that_return_programs():
    x = torch.rand(4, *SHAPE)
    for name in ("module", "around", "keyed"):
        model, known = load(f"made_of_exports:{name}", shape=SHAPE, mean=[0.5], std=[0.25])
        assert known["num_classes"] == 5
        assert isinstance(model.network, ScoresOf) == (name == "keyed")
        with torch.no_grad():
            torch.testing.assert_close(_network(model).scores(x), Small().eval()((x - 0.5) / 0.25))
    with pytest.raises(ModelError, match=r"got an ExportedProgram: return program\.module\(\)$"):
        load("made_of_exports:program")


def test_files_of_programs_are_not_loaded(tmp_path):
    torch.export.save(_exported(), tmp_path / "small.pt2")
    with pytest.raises(
        ModelError, match=r"got a program of torch\.export, .*torch\.export\.load of it, \.module\(\), "
    ):
        load(tmp_path / "small.pt2")
    with zipfile.ZipFile(tmp_path / "compiled.pt2", "w") as archive:  # as torch._inductor.aoti_compile_and_package does
        archive.writestr("compiled/data/aotinductor/model/small.wrapper.so", b"")
        archive.writestr("compiled/archive_format", "pt2")
    with pytest.raises(
        ModelError, match=r"got machine code of AOTInductor, .*aoti_load_package of it.*--model-id NAME"
    ):
        load(tmp_path / "compiled.pt2")
