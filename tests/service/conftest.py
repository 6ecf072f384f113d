"""A real server on a free port, around a network whose answers are known."""

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anisocert as ac
from anisocert.service import Client, KeyFile, add_key

ALL = ("lookup", "admit", "plan", "regions", "operate")
SHAPE = (1, 8, 8)
PLAN = ac.Plan(n=200)


@dataclass(frozen=True, eq=False)
class Served:
    """A service that runs, and the keys of those who may ask it."""

    url: str
    service: Any
    server: Any
    tokens: dict[str, str]
    keys: Path

    def client(self, who: str = "all", **options: Any) -> Client:
        return Client(self.url, self.tokens[who], **options)


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """asyncio.run in a thread of its own: a browser's test leaves its event loop running in this one."""

    def begin(asked: Coroutine[Any, Any, Any]) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, asked).result()

    return begin


def image(height: float, seed: int | None = None) -> np.ndarray:
    """An input at a signed distance from the plane between the classes; with a seed, somewhere else along it."""
    x = np.full(SHAPE, height / 8, np.float32)
    if seed is not None:
        along = np.random.default_rng(seed).normal(size=SHAPE)
        x += (3 * (along - along.mean())).astype(np.float32)
    return x


@pytest.fixture(name="image")
def _image() -> Callable[..., np.ndarray]:
    return image


@pytest.fixture
def of_another(monkeypatch) -> None:
    """Every file that is opened belongs to another user, who is not root."""
    status = os.fstat

    def changed(file: int) -> os.stat_result:
        found = status(file)
        return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:]))

    monkeypatch.setattr(os, "fstat", changed)


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """pair(name, *options of openssl): a certificate for 127.0.0.1 that signs itself, and its key."""

    def make(name: str = "own", *options: str) -> tuple[Path, Path]:
        certificate, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "1",
                   "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                   certificate, *(options or ("-nodes",))]  # fmt: skip
        try:
            subprocess.run([str(word) for word in command], check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            pytest.skip(f"needs openssl to make a certificate: {error}")
        return certificate, key

    return make


@pytest.fixture
def system(half_space) -> Callable[..., ac.System]:
    """system(...): class 0 above a plane through images of 8 x 8 pixels, class 1 below."""

    def make(model: Any = None, **options: Any) -> ac.System:
        given = {"num_classes": 2, "smoothing": ac.Gaussian(0.5), "secret": b"known to no client", "plan": PLAN}
        return ac.System(model or half_space([1.0] * 64).eval(), **given | options)

    return make


@pytest.fixture
def serving(tmp_path: Path, system) -> Iterator[Callable[..., Served]]:
    """serving(system, tls=..., **options of Service) -> a service that runs; it ends with the test."""
    pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
    pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install '.[serve]'")
    from anisocert.service.service import Service
    from anisocert.service.serving import Address, server_of

    with contextlib.ExitStack() as stack:

        def start(
            deployed: ac.System | None = None, tls: tuple[Path, Path] | None = None, **options: Any
        ) -> Served:  # fmt: skip
            keys = tmp_path / "keys.json"
            plenty = {"per_minute": 1_000_000}
            tokens = {"all": add_key(keys, "all", rights=ALL, **plenty)}
            tokens |= {right: add_key(keys, right, rights=(right,), **plenty) for right in ALL}
            tokens["client"] = add_key(keys, "client", **plenty)
            service = Service(deployed or system(), KeyFile(keys), **{"name": "plane", "shape": SHAPE} | options)
            address = Address(port=0) if tls is None else Address("127.0.0.1", 0, *tls)
            listening = stack.enter_context(address.listening())
            server = server_of(service, address)
            thread = threading.Thread(target=server.run, args=([listening],))
            thread.start()

            def stop() -> None:
                server.should_exit = True
                thread.join()
                service.close()

            stack.callback(stop)
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            scheme = "http" if tls is None else "https"
            return Served(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}", service, server, tokens, keys)

        yield start
