"""`anisocert serve` and `anisocert keys` as a user starts them: a process, asked over HTTP, ended by SIGTERM."""

import re
import signal
import socket
import subprocess
import sys
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import anisocert.service
from anisocert.data import digits
from anisocert.memory import Memory
from anisocert.service import Client


def test_keys(cli, tmp_path):
    file = tmp_path / "keys.json"
    token = cli("keys", "add", file, "--name", "alice", "--rights", "lookup,operate", "--per-minute", 7).out.strip()
    assert token.startswith("anisocert_")
    listed = cli("keys", "list", file).out
    assert re.search(r"alice +lookup, operate +7 +16777216", listed)
    assert token not in listed
    cli("keys", "remove", file, "alice")
    assert "alice" not in cli("keys", "list", file).out
    assert (
        "expected rights of key bob among" in cli("keys", "add", file, "--name", "bob", "--rights", "all", code=2).err
    )
    assert "anisocert keys add" in cli("keys", "list", tmp_path / "none.json", code=2).err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "tiny.safetensors does not say: use --shape, as in --shape 3,32,32, or --data"),
        (["--shape", "3,x"], "expected --shape as in 3,32,32, got '3,x'"),
        (["--name", "a/b", "--shape", "1,8,8"], "expected --name in letters"),
        (["--shape", "1,8,9", "--data", "digits"], "expected --shape (1, 8, 8), that of the examples"),
        (["--lifetime"], "expected memory, a file (--memory FILE), with lifetime True, got none"),
        (["--method", "best"], "expected method to be one of"),
        (["--time-limit", "inf"], "(--time-limit) in (0, 86400] seconds, got inf"),
        (["--time-limit", "nan"], "invalid value for '--time-limit'"),
    ],
)
def test_mistakes(cli, tmp_path, network_file, options, words):
    pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
    pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
    keys = tmp_path / "keys.json"
    cli("keys", "add", keys, "--name", "alice")
    assert words in cli("serve", network_file, "--sigma", 0.25, "--keys", keys, *options, code=2).err


def test_a_method_that_needs_gradients_is_refused_before_it_serves(cli, tmp_path, monkeypatch):
    """Else every input that is asked about would use up its attempts, for an abstention."""
    pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
    pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
    (tmp_path / "users_graph.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, x): return super().forward(x.flatten(1)).detach()\n"
        "def make(): return Net(64, 10)\n"
    )
    monkeypatch.chdir(tmp_path)
    cli("keys", "add", "keys.json", "--name", "alice")
    said = cli("serve", "users_graph:make", "--sigma", 0.25, "--keys", "keys.json", "--data", "digits", code=1)
    assert "got a black box: use Isotropic() (--method isotropic)" in said.err


def test_a_port_that_is_taken_is_named_before_anything_is_loaded(cli, tmp_path, network_file):
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install '.[serve]'")
    pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
    keys = tmp_path / "keys.json"
    cli("keys", "add", keys, "--name", "alice")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = cli("serve", network_file, "--sigma", 0.25, "--keys", keys, "--port", port, "--shape", "1,8,8", code=2)
    assert f"got 127.0.0.1, port {port}: address already in use; use --port or --host" in said.err
    assert "preparing" not in said.err


@pytest.mark.parametrize("module", ["prometheus_client", "starlette", "uvicorn"])
def test_without_its_packages_the_extra_is_named(cli, tmp_path, network_file, monkeypatch, module):
    keys = tmp_path / "keys.json"
    cli("keys", "add", keys, "--name", "alice")
    monkeypatch.setattr(anisocert, "service", anisocert.service)  # which importing it anew would change
    before = {one for one in sys.modules if one.startswith((f"{module}.", "anisocert.service"))}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    try:
        said = cli("serve", network_file, "--sigma", 0.25, "--keys", keys, code=1)
    finally:  # no later test may meet classes of this one
        for name in [one for one in sys.modules if one.startswith("anisocert.service") and one not in before]:
            del sys.modules[name]
    assert "pip install 'anisocert[serve]'" in said.err


class Replica:
    """`anisocert serve` as a process. place: of the memory."""

    def __init__(self, network_file, place, keys, *options):
        for module in ("starlette", "uvicorn", "prometheus_client"):
            pytest.importorskip(module, reason=f"needs {module}: pip install '.[serve]'")
        command = [
            sys.executable, "-m", "anisocert", "serve", network_file, "--sigma", "0.25", "--memory", place, "--keys",
            keys, "--port", "0", "--n", "100", "--method", "fixed", "--data", "digits", "--precision", "float32",
            *options,
        ]  # fmt: skip
        self.process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
        self.said = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def client(self, token):
        """A client, once it serves."""
        for line in self.process.stderr:
            self.said += line
            if line.startswith(("serving", "error")):
                break
        url = re.search(r"serving tiny, 0 promises, at (http://127.0.0.1:\d+)/", self.said)
        assert url is not None, self.said
        return Client(url[1], token)

    def end(self):
        """Ask it to stop, which it does with 0 once all is done."""
        self.process.send_signal(signal.SIGTERM)
        self.said += self.process.stderr.read()
        assert self.process.wait(30) == 0
        assert '"event": "stopped"' in self.said


@pytest.fixture
def keys(cli, tmp_path):
    """A file with one key, and the key."""
    file = tmp_path / "keys.json"
    return file, cli("keys", "add", file, "--name", "alice", "--rights", "lookup,admit,regions,operate").out.strip()


@pytest.fixture
def place(request, tmp_path):
    """A memory in PostgreSQL; where that is not installed, in a file, which processes of one machine share as well."""
    try:
        return request.getfixturevalue("postgres_url")
    except pytest.skip.Exception:
        return str(tmp_path / "memory.sqlite")


def test_what_one_process_promises_another_keeps(place, network_file, keys):
    """Also after the first was killed; the other ends when told to, and no key or password is logged."""
    x, lifetime = digits("test").x[:6], ("--lifetime", "--alpha", "0.01")
    with (
        Replica(network_file, place, keys[0], *lifetime) as one,
        Replica(network_file, place, keys[0], *lifetime) as other,
    ):
        first, second = one.client(keys[1]), other.client(keys[1])
        assert second.answer(x, lookup=True).note == ["none"] * 6
        found = first.answer(x, more=("region",))
        assert {"kept", "shrunk"} & set(found.note)
        inside = (x + 0.5 * found.more["region"] / np.sqrt(x[0].size)).astype(np.float32)
        promised = found.prediction >= 0
        for _ in range(2):
            for points in (x, inside):
                told = second.answer(points[promised], lookup=True)
                np.testing.assert_array_equal(told.prediction, found.prediction[promised])
                assert set(told.note) == {"inherited"}
            one.process.kill()
        other.end()
    secrets = [keys[1], urlsplit(place).password or keys[1]]
    assert not any(text in one.said + other.said for secret in secrets for text in (secret, unquote(secret)))
    with Memory.open(place, read_only=True) as kept:
        assert kept.check().ok
        assert kept.lifetime == 0.01
        for point, answer in zip(x, found.prediction, strict=True):
            promise = kept.lookup(point)
            assert answer == (-1 if promise is None else promise.prediction)
