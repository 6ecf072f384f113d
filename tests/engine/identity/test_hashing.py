"""The model hash tells functions apart, and nothing else."""

import copy
import functools
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

from anisocert import Gaussian, Plan, certify
from anisocert.engine import Network, Numerics
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Denoised, build

FLOAT32 = Numerics("float32", compile=False, rows=160)


class Holding(nn.Module):
    """A module with one attribute, of whatever kind."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: Tensor) -> Tensor:
        return self.held(x)


def digest(model: nn.Module, **options: Any) -> str:
    return Network(model.eval(), 2, numerics=options.pop("numerics", FLOAT32), **options).hash


def forest(flipped: bool) -> Any:
    trees = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    x = np.random.default_rng(0).random((80, 4))
    y = (x[:, 0] > 0.5).astype(int)
    return trees.RandomForestClassifier(5, random_state=0).fit(x, 1 - y if flipped else y)


class Forest(nn.Module):
    def __init__(self, flipped: bool = False) -> None:
        super().__init__()
        self.trees = forest(flipped)

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self.trees.predict_proba(x.flatten(1).numpy())).float()


def test_a_forest_and_the_same_trained_on_flipped_labels():
    """What they answer is opposite, so they must share neither a hash nor, with one name, a behaviour."""
    x = np.full((1, 4), 0.9, np.float32)
    found = [
        certify(Forest(i).eval(), x, num_classes=2, smoothing=Gaussian(0.05), plan=Plan(n=200), numerics=FLOAT32)[0]
        for i in (False, True)
    ]
    assert found[0].prediction != found[1].prediction
    assert found[0].model_hash != found[1].model_hash
    assert found[0].model_hash == digest(Forest())


# What a function can depend on


def _defaults(factor: float) -> Callable[[Tensor], Tensor]:
    def scaled(x: Tensor, by: float = factor) -> Tensor:
        return x * by

    return scaled


def _closed(factor: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor


def _attributed(factor: float) -> Callable[[Tensor], Tensor]:
    def scaled(x: Tensor) -> Tensor:
        return x * scaled.factor  # type: ignore[attr-defined]

    scaled.factor = factor  # type: ignore[attr-defined]
    return scaled


def _hooked(factor: float) -> nn.Module:
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(1), model.bias.fill_(0)
    model.register_forward_hook(lambda _, inputs, scores: scores * factor)
    return model


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor


class Forgetful:
    """Says to pickle that it holds nothing."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Forgetful":
        return Forgetful(self.factor)


def _replaced(factor: int) -> nn.Module:
    model = nn.Flatten()
    model.forward = (lambda x: x + 1) if factor == 1 else (lambda x: x - 1)  # type: ignore[method-assign]
    return model


def _noted(factor: float) -> Tensor:
    tensor = torch.ones(2)
    tensor.factor = factor  # type: ignore[attr-defined]
    return tensor


def _wrapping(factor: int) -> Callable[[Tensor], Tensor]:
    inner = torch._dynamo.disable(torch.relu)

    @functools.wraps(inner)
    def outer(x: Tensor) -> Tensor:
        return factor * inner(x)

    return outer


class OptimizedModule(nn.Module):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self._orig_mod, self.factor = nn.ReLU(), factor


def _enumerated(factor: int) -> Any:
    member = Enum("Kind", ["ONE"]).ONE
    member.factor = factor
    return member


def _differentiated(by: float) -> Any:
    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return by * x

    return Times.apply


PAIRS: dict[str, Callable[[int], Any]] = {
    "a tensor": lambda i: torch.tensor([1.0, i]),
    "a tensor's type": lambda i: torch.zeros(4, dtype=[torch.int32, torch.float32][i - 1]),
    "a tensor's shape": lambda i: torch.zeros([(2, 3), (3, 2)][i - 1]),
    "a sparse tensor": lambda i: torch.tensor([0.0, i]).to_sparse(),
    "an array in a dict in a list": lambda i: [{"weights": np.array([1.0, i])}],
    "an array of objects": lambda i: np.array([1, None, str(i)], object),
    "a structured array": lambda i: np.array([(1, i)], [("a", "i4"), ("b", "f8")]),
    "an order": lambda i: {"a": 1, "b": 2} if i == 1 else {"b": 2, "a": 1},
    "a set": lambda i: {"a", "b", i},
    "a number's type": lambda i: [1, 1.0][i - 1],
    "a number's sign": lambda i: [0.0, -0.0][i - 1],
    "texts that run together": lambda i: [["ab", "c"], ["a", "bc"]][i - 1],
    "a lambda": lambda i: [lambda x: x + 1, lambda x: x - 1][i - 1],
    "a constant of a function": lambda i: [lambda x: x * 2, lambda x: x * 3][i - 1],
    "a default": lambda i: _defaults(i),
    "a closure": lambda i: _closed(torch.tensor([1.0, i])),
    "a function's attribute": lambda i: _attributed(i),
    "a partial": lambda i: functools.partial(nn.functional.leaky_relu, negative_slope=i),
    "a function of torch": lambda i: [torch.relu, torch.sigmoid][i - 1],
    "a function of numpy": lambda i: [np.minimum, np.maximum][i - 1],
    "a bound method": lambda i: nn.LeakyReLU(i).forward,
    "a method of a tensor": lambda i: torch.tensor([1.0, i]).add,
    "a hook": _hooked,
    "a slot": Slotted,
    "what pickle is not told": Forgetful,
    "a forward of its own": _replaced,
    "a note on a tensor": _noted,
    "a decorated function": lambda i: torch.no_grad()(_closed(torch.tensor([1.0, i]))),
    "a cached function": lambda i: functools.lru_cache(_defaults(i)),
    "a traced network": lambda i: fx.symbolic_trace(Holding([torch.relu, torch.sigmoid][i - 1])),
    "a module in a list": lambda i: [nn.LeakyReLU(i)],
    "a partial with a function's name": lambda i: functools.update_wrapper(
        functools.partial(nn.functional.leaky_relu, negative_slope=i), nn.functional.leaky_relu
    ),
    "a wrapper of what torch.compile knows": _wrapping,
    "a mode of a module in a list": lambda i: [nn.Dropout(0.5).train(i == 1)],
    "a user's class of a name that torch has": lambda i: OptimizedModule(i),
    "an enum member's attribute": _enumerated,
    "a dimension of a view": lambda i: torch.arange(6).view(2, 3).T if i == 1 else torch.arange(6).view(3, 2),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_told_apart(kind):
    held = [Holding(PAIRS[kind](i)) for i in (1, 2, 1)]  # at once, so that no two have one place in memory
    one, other, again = map(digest, held)
    assert one != other
    assert one == again


GLOBAL = torch.tensor([1.0, 2.0])


def _by_global(x: Tensor) -> Tensor:
    return x * GLOBAL


class Global(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return _by_global(x)  # through a helper


def test_a_global_tensor(monkeypatch):
    before = digest(Global())
    monkeypatch.setitem(globals(), "GLOBAL", torch.tensor([1.0, 3.0]))
    assert digest(Global()) != before


def _linear(sign: int) -> type[nn.Module]:
    if sign > 0:

        class Net(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x

    else:

        class Net(nn.Module):  # type: ignore[no-redef]
            def forward(self, x: Tensor) -> Tensor:
                return -x

    return Net


def test_classes_of_one_name():
    one, other = _linear(1), _linear(-1)
    assert one.__qualname__ == other.__qualname__
    assert digest(one()) != digest(other())


def test_a_base_class_counts():
    one, other = (type("Net", (_linear(sign),), {}) for sign in (1, -1))
    assert digest(one()) != digest(other())


def test_a_script_of_another_function():
    with pytest.warns(DeprecationWarning, match="jit"):
        one, same, other = (torch.jit.trace(_linear(sign)().eval(), torch.rand(3, 2)) for sign in (1, 1, -1))
    assert digest(one) == digest(same) != digest(other)


MODULE = """
import torch
from torch import nn
from users_helpers import {how}

class Shrink(nn.Module):
    def forward(self, x):
        return {call}(x)

def make():
    return Shrink()
"""


@pytest.mark.parametrize(("how", "call"), [("shrink", "shrink"), ("inner", "inner.shrink")])
def test_a_denoiser_that_differs_in_a_constant_of_its_source(tmp_path, monkeypatch, how, call):
    """In a module that its own module imports, by name or as a whole."""
    monkeypatch.syspath_prepend(tmp_path)
    from anisocert.models import load
    from anisocert.models.checkpoint import save

    torch.manual_seed(0)
    network = build("small-cnn", 10, (0.3,), (0.4,))
    described = {"architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.4,)}
    save(network, tmp_path / "net.safetensors", described)
    found = []
    for factor in ("0.5", "0.25", "0.5"):
        for name in ("users_denoiser", "users_helpers", "users_helpers.inner"):
            sys.modules.pop(name, None)
        helpers = tmp_path / "users_helpers"
        helpers.mkdir(exist_ok=True)
        (helpers / "inner.py").write_text(f"# {len(found)}\ndef shrink(x):\n    return x * {factor}\n")
        (helpers / "__init__.py").write_text(
            "from users_helpers import inner\nfrom users_helpers.inner import shrink\n"
        )
        (tmp_path / "users_denoiser.py").write_text(MODULE.format(how=how, call=call))
        for cached in tmp_path.rglob("*.pyc"):
            cached.unlink()
        model, _ = load(tmp_path / "net.safetensors", denoise="users_denoiser:make")
        assert isinstance(model, Denoised)
        found.append(Network(model, 10, numerics=FLOAT32).hash)
    assert found[0] == found[2] != found[1]


# What is no part of it


def test_copies_and_reloaded_networks_are_equal(tmp_path):
    def make() -> nn.Module:
        torch.manual_seed(3)
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.LSTM(72, 2)).eval()

    model = make()
    torch.save(model.state_dict(), tmp_path / "net.pt")
    loaded = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.LSTM(72, 2)).eval()
    loaded.load_state_dict(torch.load(tmp_path / "net.pt"))
    still = copy.deepcopy(model).requires_grad_(False)
    laid_out = copy.deepcopy(model)
    laid_out[0].to(memory_format=torch.channels_last)
    assert len({digest(one) for one in (model, make(), copy.deepcopy(model), loaded, still, laid_out)}) == 1


def test_a_compiled_network_is_the_network():
    model = nn.Sequential(nn.Linear(2, 2)).eval()
    before = digest(model)
    assert digest(torch.compile(model)) == before
    assert digest(model) == before  # on which torch leaves a mark


def test_it_is_taken_before_the_network_runs():
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x.flatten(1)[:, :2]

    model = Counting().eval()
    before = digest(model)
    network = Network(model, 2, numerics=FLOAT32)
    network.fit((2,), 1)
    assert network.hash == before == digest(model)


PROGRAM = """
import functools, os, sys
import numpy as np, torch
from torch import nn
sys.path.insert(0, sys.argv[1])
from anisocert.engine import Network, Numerics

NAMES = {"one", "two", "three"}

class Net(nn.Module):
    kinds = frozenset({"a", "b", "c"})
    def __init__(self):
        super().__init__()
        self.settings = {"names": {"x", "y", "z"}, "f": functools.partial(torch.add, alpha=2), "w": np.arange(3.0)}
        self.first = nn.Linear(2, 2)
        self.first.register_forward_pre_hook(lambda module, inputs: None)
    def forward(self, x):
        return self.first(x) if x.dim() in {1, 2, 3} and NAMES else x

for _ in range(int(sys.argv[2])):  # what the process did before
    nn.Linear(1, 1).register_forward_hook(print)
torch.manual_seed(0)
print(Network(Net().eval(), 2, numerics=Numerics("float32")).hash)
"""


def test_the_same_in_another_process(tmp_path):
    found = set()
    for seed, folder in (("1", tmp_path), ("2", Path.cwd())):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        source = str(Path(__file__).parents[3] / "src")
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, source, seed], capture_output=True, text=True, cwd=folder, env=environment
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout.strip())
    assert len(found) == 1


# What cannot be read


class Session:
    """As of another runtime: it can be shared, not read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, x: Tensor) -> Tensor:
        return x

    def __deepcopy__(self, memo: dict[int, Any]) -> "Session":
        return self


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ModelError, match=r"got Holding\.held\[0\]\.lock, lock, which cannot .*model_id=.*--model-id"):
        digest(Holding([Session()]))
    assert digest(Holding([Session()]), model_id="mine").startswith("mine")


def test_functions_that_a_library_compiled():
    """Users' modules that import them are no reason to doubt whose they are, and no part of the hash."""
    from scipy.special import expit, ndtri

    assert digest(Holding(expit)) != digest(Holding(ndtri))
    with pytest.raises(ModelError, match=r"Holding\.held, ufunc"):
        digest(Holding(np.frompyfunc(lambda x: x, 1, 1)))


def test_functions_that_the_user_compiled_cannot_be_read(tmp_path, monkeypatch):
    """Two files of one name may hold anything."""
    import _bisect

    assert digest(Holding(_bisect.bisect_left)) != digest(Holding(_bisect.bisect_right))
    monkeypatch.setattr(_bisect, "__file__", str(tmp_path / "_bisect.so"))
    with pytest.raises(ModelError, match=r"Holding\.held, builtin_function_or_method, .* compiled code of your own"):
        digest(Holding(_bisect.bisect_left))


def test_classes_that_the_user_compiled_cannot_be_read(tmp_path, monkeypatch):
    """Their methods have no code to read, and nor have those of classes that inherit them."""
    import _queue

    class Own(_queue.SimpleQueue):
        pass

    for held in (_queue.SimpleQueue, Own, _queue.SimpleQueue.put):
        digest(Holding(held))
    monkeypatch.setattr(_queue, "__file__", str(tmp_path / "_queue.so"))
    for held in (_queue.SimpleQueue, Own, _queue.SimpleQueue.put):
        with pytest.raises(ModelError, match=r"Holding\.held.*, type, .* compiled code of your own"):
            digest(Holding(held))


def test_a_generator_cannot_be_read():
    function = _closed(iter(one for one in (1, 2)))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"Holding\.held<factor>, generator"):
        digest(Holding(function))


def test_a_module_that_the_code_would_import_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "users_later.py").write_text("def f(x): return x")
    monkeypatch.syspath_prepend(tmp_path)

    def later(x: Tensor) -> Tensor:
        import math

        import users_later

        return users_later.f(x) * math.pi

    with pytest.raises(ModelError, match="import users_later happens only when it runs"):
        digest(Holding(later))


def _relu(x: Tensor) -> Tensor:
    return torch.relu(x)


@pytest.mark.parametrize("part", [threading.Lock, lambda: torch.jit.script(_relu)])
def test_a_module_that_cannot_be_copied_runs_under_its_name(part):
    model = Holding(nn.Linear(2, 2)).eval()
    model.part = part()
    with pytest.raises(ModelError, match=r"copy\.deepcopy can copy.*--model-id"):
        Network(model, 2)
    network = Network(model, 2, numerics=FLOAT32, model_id="locked")
    network.fit((2,), 1)
    x = torch.rand(160, 2)
    assert torch.equal(network.scores(x), model(x))
    assert network.hash == "locked, float32 on grid 2^-12"
    with pytest.raises(ModelError, match="evaluation mode"):
        Network(model.train(), 2, model_id="locked")


def test_a_class_that_knows_its_content_says_so():
    class Known(Session):
        def __init__(self, content: bytes) -> None:
            super().__init__()
            self.content = content

        def __identity__(self) -> bytes:
            return self.content

    one, other, again = (digest(Holding(Known(content))) for content in (b"1", b"2", b"1"))
    assert one == again != other


def test_an_empty_name_is_none():
    with pytest.raises(ArgumentError, match=r"expected model_id as a name, .*, got .."):
        digest(nn.Linear(2, 2), model_id="")


@pytest.mark.parametrize("many", [[f"x = x + {i}.25" for i in range(300)], [f"x.name_{i}" for i in range(300)]])
def test_large_functions_import_too(many, tmp_path, monkeypatch):
    """Whose instructions have prefixes, because their arguments do not fit a byte."""
    lines = "\n        ".join(
        ["if x is None:", *(f"    {one}" for one in many), "from math import pi", "return pi * x"]
    )
    (tmp_path / "large_forward.py").write_text(
        f"from torch import nn\nclass Large(nn.Module):\n    def forward(self, x):\n        {lines}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "large_forward", raising=False)
    module = importlib.import_module("large_forward")
    assert Network(module.Large().eval(), 2).hash == Network(module.Large().eval(), 2).hash
    monkeypatch.delitem(sys.modules, "large_forward")


TAKEN = """
import users_values
from torch import nn

def scale_of(values):
    return values.W

class Net(nn.Module):
    def forward(self, x):
        return {how}
"""


@pytest.mark.parametrize("how", ["x * scale_of(users_values)", "x * getattr(users_values, 'W')", "x * users_values.V"])
def test_a_module_that_is_handed_on(how, tmp_path, monkeypatch):
    """Whoever gets it may take anything from it; and one may make its attributes as they are asked for."""
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for value in (1, 2):
        (tmp_path / "users_values.py").write_text(f"W = {value}\ndef __getattr__(name):\n    return {value}\n")
        (tmp_path / "users_taking.py").write_text(TAKEN.format(how=how))
        for name in ("users_values", "users_taking", "__pycache__"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        source = importlib.util.cache_from_source(str(tmp_path / "users_values.py"))
        Path(source).unlink(missing_ok=True)
        found.append(digest(importlib.import_module("users_taking").Net()))
    assert found[0] != found[1]


IN_A_PACKAGE = """
from torch import nn
{top}
def scale_of(values):
    return values.W

class Net(nn.Module):
    def forward(self, x):
        {local}
        return {how}
"""


@pytest.mark.parametrize(
    ("top", "local", "name"),
    [
        ("import users_package.values", "", "users_package.values"),
        ("", "import users_package.values", "users_package.values"),
        ("", "import users_package.values as v", "v"),
        ("", "from users_package import values as v", "v"),
    ],
)
@pytest.mark.parametrize("how", ["scale_of({})", "getattr({}, 'W')", "{}.__dict__['W']", "(lambda: scale_of({}))()"])
def test_a_part_of_a_package_that_is_handed_on(how, top, local, name, tmp_path, monkeypatch):
    """Also one that the code imports as it runs, under whichever name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "users_package").mkdir()
    (tmp_path / "users_package" / "__init__.py").touch()
    (tmp_path / "users_taking.py").write_text(IN_A_PACKAGE.format(top=top, local=local, how=how.format(name)))
    found = []
    for value in (1, 2):
        (tmp_path / "users_package" / "values.py").write_text(f"W = {value}\n")
        for module in ("users_package", "users_package.values", "users_taking"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()
        importlib.import_module("users_package.values")
        found.append(digest(importlib.import_module("users_taking").Net()))
    assert found[0] != found[1]


ITS_OWN_NAMES = """
import copy
import torch
from torch import nn
from users_parts import values

class Net(nn.Module):
    def __init__(self, ops=None):
        super().__init__()
        self.ops = nn.ModuleList(ops or [nn.Linear(1, 1)])
        self.values = torch.ones(values.W)

    def forward(self, x):
        copied = copy.copy
        return torch.stack([copied(op)(x) for op in self.ops]).sum(0) + values.W * self.values

    def named(self, values):
        return values, copy.copy(self.values)
"""


def test_what_a_network_calls_as_a_module_is_called_is_not_that_module(tmp_path, monkeypatch):
    """Nothing of it is handed on; all of that one could not be read."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "users_parts").mkdir()
    (tmp_path / "users_parts" / "__init__.py").touch()
    (tmp_path / "users_named.py").write_text(ITS_OWN_NAMES)
    found = []
    for value, other in ((1, 1), (1, 2), (2, 2)):
        (tmp_path / "users_parts" / "values.py").write_text(
            f"import threading\nV = threading.Lock(), {other}\nW = {value}\n"
        )
        for module in ("users_parts", "users_parts.values", "users_named"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()
        torch.manual_seed(0)
        found.append(digest(importlib.import_module("users_named").Net()))
    assert found[0] == found[1] != found[2]


READS = [
    "eval('x')", "globals()['x']", "__import__('math').pi * x", "builtins.eval('x')", "sys.modules['math'].pi * x",
    "sys._getframe().f_globals['x']", "import_module('math').pi * x", "of_python.eval('x')",
    "of_process.modules['math'].pi * x",
]  # fmt: skip
INSIDE = [
    "from importlib import import_module as brought; return brought('math').pi * x",
    "import sys as process; return process.modules['math'].pi * x", "from sys import modules; return modules['math']",
    "from builtins import eval as read; return read('x')",
]  # fmt: skip


@pytest.mark.parametrize("how", [*(f"return {one}" for one in READS), *INSIDE])
def test_code_that_reads_what_it_does_not_name_is_refused(how, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "users_dynamic", raising=False)
    (tmp_path / "users_dynamic.py").write_text(
        f"import builtins, sys, builtins as of_python, sys as of_process\nfrom importlib import import_module\n"
        f"from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        {how}\n"
    )
    importlib.invalidate_caches()
    with pytest.raises(ModelError, match="--model-id"):
        digest(importlib.import_module("users_dynamic").Net())


def test_functions_that_a_library_calls_the_same_are_told_apart(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "library_of_activations", raising=False)
    (folder / "library_of_activations.py").write_text(
        "def made(kind):\n    return (lambda x: x.relu()) if kind == 1 else (lambda x: x.tanh())\n"
        "KEPT = {1: lambda x: x.relu(), 2: lambda x: x.tanh()}\n"
    )
    importlib.invalidate_caches()
    library = importlib.import_module("library_of_activations")
    for get in (library.made, library.KEPT.__getitem__):
        assert digest(Holding(get(1))) == digest(Holding(get(1))) != digest(Holding(get(2)))


def test_a_librarys_wrapper_counts_by_its_place_there(tmp_path, monkeypatch):
    """A new version of the library, with other code, ends no memory."""
    folder, found = tmp_path / "site-packages", []
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    for version, body in enumerate(("return call(x)", "found = call(x); return found")):
        monkeypatch.delitem(sys.modules, "library_of_wrappers", raising=False)
        (folder / "library_of_wrappers.py").write_text(
            f"def wrapping(call):\n    def wrapped(x):\n        {body}\n    return wrapped\nVERSION = {version}\n"
        )
        importlib.invalidate_caches()
        found.append(digest(Holding(importlib.import_module("library_of_wrappers").wrapping(torch.relu))))
    assert found[0] == found[1]


def test_functions_with_gradients_of_their_own_count_by_what_they_do():
    """Not by how many of them the process has made before."""
    assert digest(Holding(_differentiated(1))) == digest(Holding(_differentiated(1)))
    assert digest(Holding(_differentiated(1))) != digest(Holding(_differentiated(2)))


@pytest.fixture
def users_operators() -> Iterator[None]:
    library = torch.library.Library("users", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CPU")
    yield
    library._destroy()


@pytest.mark.usefixtures("users_operators")
@pytest.mark.parametrize("imported", ["import torch\nfrom torch import nn", "from torch import nn, ops as torch_ops"])
def test_operators_that_are_not_torchs_own_are_refused_in_code_too(imported, tmp_path, monkeypatch):
    """What they do is known nowhere by their names."""
    monkeypatch.syspath_prepend(tmp_path)
    ops = "torch.ops" if "import torch\n" in imported else "torch_ops"
    for name, called in (("users_own", "users.twice"), ("users_plain", "aten.relu")):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(
            f"{imported}\nclass Net(nn.Module):\n    def forward(self, x):\n        return {ops}.{called}(x)\n"
        )
    importlib.invalidate_caches()
    digest(importlib.import_module("users_plain").Net())
    with pytest.raises(ModelError, match=r"users\.twice is an operator that is not torch's own"):
        digest(importlib.import_module("users_own").Net())


def test_code_without_a_file_is_the_users_wherever_the_process_is(monkeypatch):
    def made(factor: int) -> Any:
        namespace: dict[str, Any] = {}
        exec(f"def scaled(x): return x * {factor}", namespace)
        return namespace["scaled"]

    before = digest(Holding(made(2)))
    monkeypatch.chdir(Path(torch.__file__).parents[1])
    assert digest(Holding(made(2))) == before != digest(Holding(made(3)))


OTHER_OPERATORS = """
import torch
from torch import nn
{top}
def twice(operators, x):
    return operators.twice(x)

class Net(nn.Module):
    def forward(self, x):
        {local}
        return {how}
"""


@pytest.mark.usefixtures("users_operators")
@pytest.mark.parametrize(
    ("top", "local", "how"),
    [
        ("ours = torch.ops.users", "", "ours.twice(x)"),
        ("ours = torch.ops.users", "", "twice(ours, x)"),
        ("ours = torch.ops", "all = ours", "all.users.twice(x)"),
        ("", "", "getattr(torch.ops, 'users').twice(x)"),
        ("", "t = torch", "t.ops.users.twice(x)"),
        ("", "t = torch", "twice(t.ops.users, x)"),
        ("", "t = torch", "getattr(t.ops, 'users').twice(x)"),
        ("", "from torch import ops", "getattr(ops, 'users').twice(x)"),
        ("", "import torch as t", "getattr(t.ops, 'users').twice(x)"),
    ],
)
def test_operators_that_are_not_torchs_own_are_refused_wherever_they_come_from(top, local, how, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "users_other", raising=False)
    (tmp_path / "users_other.py").write_text(OTHER_OPERATORS.format(top=top, local=local, how=how))
    importlib.invalidate_caches()
    with pytest.raises(ModelError, match="not torch's own"):
        digest(importlib.import_module("users_other").Net())


def test_torchs_own_operators_may_have_a_short_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("relu", "neg"):
        source = OTHER_OPERATORS.format(top="ours = torch.ops.aten", local="", how=f"ours.{name}(x)")
        (tmp_path / f"users_{name}.py").write_text(source)
    importlib.invalidate_caches()
    relu, neg = (importlib.import_module(f"users_{name}").Net() for name in ("relu", "neg"))
    assert digest(relu) == digest(relu) != digest(neg)


def test_hooks_on_all_modules_are_refused():
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: -output)
    try:
        with pytest.raises(ModelError, match="expected no hooks on all modules"):
            digest(nn.Linear(2, 2))
    finally:
        handle.remove()


def test_packages_of_another_environment_are_libraries_and_sources_of_an_editable_one_are_not(tmp_path: Path) -> None:
    """Both are reached by a .pth file; torch may lie in the first, and would be read function by function."""
    from anisocert.engine.identity._own_code import is_installed_file

    assert is_installed_file(str(tmp_path / "env" / "lib" / "site-packages" / "torch" / "nn.py"))
    assert is_installed_file(str(tmp_path / "dist-packages" / "torch" / "nn.py"))
    assert not is_installed_file(str(tmp_path / "project" / "src" / "mine" / "net.py"))
    assert not is_installed_file(str(tmp_path / "my-site-packages" / "net.py"))
