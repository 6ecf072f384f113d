"""What an import costs and needs, seen from fresh processes."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import anisocert

# Everything outside the core: the extras `cli`, `report`, `onnx`, `ray`, `serve` and what they bring.
EXTRAS = (
    "typer", "click", "rich", "pyarrow", "safetensors", "sklearn", "matplotlib", "plotly", "onnx", "onnxruntime",
    "onnx2torch", "ray", "torchvision", "PIL", "pandas", "starlette", "uvicorn", "prometheus_client",
)  # fmt: skip
HEAVY = (
    "pyarrow", "sklearn", "matplotlib", "pandas", "ray", "rich", "typer", "scipy.stats", "torch._dynamo",
    "torch._inductor", "sympy", "triton",
)  # fmt: skip

BLOCK = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)


def test_the_core_needs_no_extra():
    done = run(
        BLOCK
        + """
import anisocert as ac, numpy as np
for name in ac.__all__:
    getattr(ac, name)
assert set(ac.__all__) <= set(dir(ac))
from anisocert import *
found = ac.certify(lambda x: -x, np.ones((2, 2)) * [0, 9], model_id="mine", num_classes=2,
                   smoothing=ac.Gaussian(1.0), plan=ac.Plan(n=50))
print([c.prediction for c in found])
for call in (lambda: ac.evaluate(found, [0, 0]), lambda: ac.report("runs/a")):
    try:
        call()
    except ac.AnisocertError as error:
        print(error)
"""
    )
    told = "reading a run needs pyarrow: pip install 'anisocert[cli]'\n"
    assert done.stdout == f"[0, 0]\n{told}{told}", done.stderr


def test_the_public_names_load_nothing_heavy_nor_do_votes_and_a_search_load_torchs_compiler():
    """It takes more than a second, which every command would wait for."""
    done = run(f"""
import sys, torch, numpy as np, anisocert as ac
[getattr(ac, name) for name in ac.__all__]
print(sorted(set({HEAVY!r}) & set(sys.modules)))
net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 2)).eval()
plan, numerics = ac.Plan(n=50), ac.Numerics(compile=False, rows=32)
ac.certify(net, np.ones((1, 1, 4, 4)), smoothing=ac.Gaussian(0.1), plan=plan, method=ac.Anisotropic(), num_classes=2,
           numerics=numerics)
print("torch._dynamo" in sys.modules)
""")
    assert done.stdout == "[]\nFalse\n", done.stderr


def test_importing_the_package_is_cheap():
    done = run("import sys, anisocert; print(sorted({'torch', 'scipy', 'numpy'} & set(sys.modules)))")
    assert done.stdout == "[]\n", done.stderr


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="nonsense"):
        anisocert.nonsense  # noqa: B018


def test_command_line_without_its_extra_says_which():
    done = run(BLOCK + "import sys; sys.argv = ['anisocert', 'demo']; from anisocert.cli import main; main()")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the command line needs typer")
    assert "pip install 'anisocert[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_missing_extra_is_an_error_of_ours_that_names_it():
    done = run(
        BLOCK
        + """
from anisocert.errors import AnisocertError, MissingExtraError
def runs(): import anisocert.runs
def data(): from anisocert.data import digits; digits("test")
for needing in (runs, data):
    try:
        needing()
    except MissingExtraError as error:
        assert isinstance(error, AnisocertError) and isinstance(error, ImportError)
        print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert ["pyarrow" in told[0], "scikit-learn" in told[1]] == [True, True]
    assert all("pip install 'anisocert[cli]'" in line for line in told)


def test_rooms_use_each_others_public_names():
    """What begins with an underscore belongs to its folder; what a folder exports is imported from itself."""
    source = Path(anisocert.__file__).parent
    wrong = []
    for file in source.rglob("*.py"):
        own = file.relative_to(source).parts[:-1]
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("anisocert."):
                continue
            named = {one.name for one in node.names}
            given = tuple(node.module.split(".")[1:])
            for end in range(1, len(given) + 1):
                folder, inner = given[:end], given[end:]
                if own[:end] == folder or not source.joinpath(*folder).is_dir():
                    continue
                public = set(getattr(importlib.import_module(".".join(("anisocert", *folder))), "__all__", ()))
                if any(part.startswith("_") for part in (*inner, *named)) or (inner and named & public):
                    wrong.append(f"{file.relative_to(source)}: from {node.module} import {', '.join(sorted(named))}")
    assert not wrong


POSIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {"uname", "fork", "forkpty", "getuid", "geteuid", "getgid", "chown", "mkfifo", "setsid", "killpg", "nice"}


def test_nothing_needs_a_posix_system():
    """Windows and macOS are not tested here, but nothing may stand in their way."""
    found = []
    for path in Path(anisocert.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found += [(path.name, one.name) for one in node.names if one.name in POSIX_ONLY]
            elif isinstance(node, ast.ImportFrom) and node.module in POSIX_ONLY:
                found.append((path.name, node.module))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                found += [(path.name, f"os.{node.attr}")] * (node.attr in POSIX_NAMES)
    assert found == []
