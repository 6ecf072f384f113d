import gzip
import hashlib
import http.server
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anisocert.data import _fetching as fetching
from anisocert.data import cache, cifar10, fetch, mnist
from anisocert.data._fetching import FetchError, Source, download, fetch_files

CONTENT = {"a.bin": b"a" * 5000, "b.bin": b"b" * 300}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


class Server(http.server.ThreadingHTTPServer):
    """Publishes `files`; `short` of them end early."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.short, self.asked = dict(CONTENT), set[str](), list[str]()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        self.server.asked.append(name)
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if name in self.server.short else content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def published(server: Server) -> Source:
    def get(work: Path) -> None:
        for name in CONTENT:
            download(f"{server.address}/{name}", work / name)

    return Source("the test server", get)


def test_a_second_run_downloads_nothing(server: Server, tmp_path: Path) -> None:
    assert fetch_files("toy", tmp_path / "toy", DIGESTS, [published(server)], "") is True
    assert {path.name: path.read_bytes() for path in (tmp_path / "toy").iterdir()} == CONTENT
    server.asked.clear()
    assert fetch_files("toy", tmp_path / "toy", DIGESTS, [published(server)], "") is False
    assert server.asked == []


@pytest.mark.parametrize("breakage", ["short", "changed", "absent"])
def test_broken_downloads_are_never_used(server: Server, tmp_path: Path, breakage: str) -> None:
    if breakage == "short":
        server.short.add("b.bin")
    elif breakage == "changed":
        server.files["b.bin"] = b"c" * 300
    else:
        del server.files["b.bin"]
    with pytest.raises(FetchError, match=r"toy could not be fetched \(the test server: .*\). Put it there."):
        fetch_files("toy", tmp_path / "toy", DIGESTS, [published(server)], "Put it there.")
    assert list((tmp_path / "toy").iterdir()) == []


def test_the_next_source_is_tried(server: Server, tmp_path: Path) -> None:
    said: list[str] = []
    sources = [Source("nowhere", lambda work: download("http://127.0.0.1:9/a", work / "a")), published(server)]
    assert fetch_files("toy", tmp_path / "toy", DIGESTS, sources, "", said.append)
    assert said == ["trying nowhere", "trying the test server"]


def test_a_damaged_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    fetch_files("toy", tmp_path / "toy", DIGESTS, [published(server)], "")
    (tmp_path / "toy" / "a.bin").write_bytes(CONTENT["a.bin"][:-1])
    assert fetch_files("toy", tmp_path / "toy", DIGESTS, [published(server)], "")
    assert (tmp_path / "toy" / "a.bin").read_bytes() == CONTENT["a.bin"]


def test_gzipped_idx_files_from_an_address(server: Server, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: name.encode() * 9 for name in mnist.TRAIN + mnist.TEST}
    server.files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    for name, content in files.items():
        monkeypatch.setitem(mnist.MNIST.files, name, hashlib.sha256(content).hexdigest())
    source = mnist._official(server.address)
    assert fetch_files("mnist", root / "mnist", mnist.MNIST.files, [source], "")
    assert {path.name: path.read_bytes() for path in (root / "mnist").iterdir()} == files


@pytest.mark.parametrize("name", ["cifar10", "mnist", "fashion-mnist"])
def test_offline_says_what_to_put_where(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def offline(*_: object) -> None:
        raise OSError("no network")

    for module in (cifar10, mnist):
        for function in ("download", "npm_package", "debian_package"):
            if hasattr(module, function):
                monkeypatch.setattr(module, function, offline)
    said = f"{name} could not be fetched .*no network.*no network.*Put .* into {re.escape(str(root))}"
    with pytest.raises(FetchError, match=said):
        fetch(name)


def test_a_missing_client_is_one_more_failed_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for get in (fetching.npm_package, fetching.debian_package):
        with pytest.raises(fetching.FAILURES):
            get("anything", tmp_path)


def test_cache_folder_by_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    monkeypatch.setenv("LOCALAPPDATA", "/x/local")
    monkeypatch.setenv("HOME", "/x/home")
    for platform, expected in (
        ("linux", "/x/cache/anisocert/data"),
        ("darwin", "/x/home/Library/Caches/anisocert/data"),
        ("win32", "/x/local/anisocert/data"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert cache.root() == Path(expected)
    monkeypatch.setenv(cache.VARIABLE, os.path.join("~", "elsewhere"))
    assert cache.root() == Path("/x/home/elsewhere")
