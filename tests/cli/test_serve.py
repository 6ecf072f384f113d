"""`anisocert serve` and `anisocert keys` as a user starts them: a process, asked over HTTP, ended by SIGTERM."""

import re
import signal
import subprocess
import sys

import numpy as np
import pytest

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
        (["--shape", "3,x"], "expected --shape as in 3,32,32, got '3,x'"),
        (["--name", "a/b", "--shape", "1,8,8"], "expected --name in letters"),
        (["--shape", "1,8,9", "--data", "digits"], "expected --shape (1, 8, 8), that of the examples"),
        (["--lifetime"], "expected memory, a file (--memory FILE), with lifetime True, got none"),
        (["--method", "best"], "expected method to be one of"),
    ],
)
def test_mistakes(cli, tmp_path, network_file, options, words):
    pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
    pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
    keys = tmp_path / "keys.json"
    cli("keys", "add", keys, "--name", "alice")
    assert words in cli("serve", network_file, "--sigma", 0.25, "--keys", keys, *options, code=2).err


def test_a_process_serves_keeps_its_promises_and_ends(cli, tmp_path, network_file):
    for module in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(module, reason=f"needs {module}: pip install '.[serve]'")
    keys, memory, x = tmp_path / "keys.json", tmp_path / "m.sqlite", digits("test").x[:6]
    token = cli("keys", "add", keys, "--name", "alice", "--rights", "lookup,admit,regions,operate").out.strip()
    command = [
        sys.executable, "-m", "anisocert", "serve", network_file, "--sigma", "0.25", "--memory", memory, "--keys", keys,
        "--port", "0", "--n", "100", "--method", "fixed", "--data", "digits", "--precision", "float32", "--lifetime",
        "--alpha", "0.01",
    ]  # fmt: skip
    process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = next(line for line in process.stderr if line.startswith(("serving", "error")))
        url = re.search(r"serving tiny, 0 promises, at (http://127.0.0.1:\d+)/", told)
        assert url is not None, told
        client = Client(url[1], token)
        found = client.answer(x)
        again = client.answer(x)
        np.testing.assert_array_equal(found.prediction, again.prediction)
        assert {"kept", "shrunk"} & set(found.note)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(30) == 0
    finally:
        process.kill()
    assert '"event": "stopped"' in rest
    assert token not in told + rest
    with Memory.open(memory, read_only=True) as kept:
        assert kept.check().ok
        assert kept.lifetime == 0.01
        for one, answer in zip(x, found.prediction, strict=True):
            promise = kept.lookup(one)
            assert answer == (-1 if promise is None else promise.prediction)
