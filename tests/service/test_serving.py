"""Where a service listens, as people are told, and by which certificate."""

import socket
import ssl
import time

import pytest

from anisocert.errors import ArgumentError

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install '.[serve]'")
pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
from anisocert.service import _connections as connections
from anisocert.service.serving import Address


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:81/"), ("::1", "http://[::1]:81/"), ("localhost", "http://localhost:81/")],
)
def test_an_address_can_be_typed_as_it_is_told(host, url, tmp_path):
    assert Address(host, 81).url(81) == url
    assert Address(host, 0, tmp_path, tmp_path).url(81) == url.replace("http", "https")


def test_a_certificate_that_cannot_be_used_is_named_before_anything_is_loaded(pair, tmp_path):
    certificate, key = pair()
    _, other = pair("other")
    _, locked = pair("locked", "-passout", "pass:word")
    text = tmp_path / "text.pem"
    text.write_text("no PEM")
    for wrong, words in (
        ((certificate, other), "got: .*MISMATCH"),
        ((certificate, text), "got: "),
        ((text, key), "got: "),
        ((certificate, tmp_path / "none"), "got: no such file"),
        ((certificate, locked), r"expected a key without a passphrase in .*locked.key \(--tls-key\)"),
    ):
        with pytest.raises(ArgumentError, match=f"(?i){words}"):
            Address("127.0.0.1", 0, *wrong).listening()
    with pytest.raises(ArgumentError, match="expected both a certificate and its key"):
        Address("127.0.0.1", 0, certificate)
    Address("127.0.0.1", 0, certificate, key).listening().close()


def test_a_handshake_has_as_little_time_as_headers(serving, pair, monkeypatch):
    """Else who says nothing at all holds a connection for a minute, and is counted nowhere."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    certificate, key = pair()
    served, started = serving(tls=(certificate, key)), time.monotonic()
    host, port = served.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as silent:
        assert silent.recv(100) == b""
    assert time.monotonic() - started < 10
    assert served.client(context=ssl.create_default_context(cafile=certificate)).ready()
