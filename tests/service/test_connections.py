"""Connections of strangers: few enough, and not for long before they have asked something."""

import os
import socket
import time

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install '.[serve]'")
from anisocert.service import _connections as connections

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"


def connect(served):
    host, port = served.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def ended(connection):
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("begun", [b"", b"GET /v2 HTTP/1.1\r\nHost: a\r\nX-"])
def test_headers_must_come_in_time(serving, monkeypatch, begun):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    served = serving()
    with connect(served) as silent, connect(served) as dripping, connect(served) as second:
        silent.sendall(begun)
        second.sendall(LIVE)
        answered = b""
        while b'{"live":true}' not in answered:
            answered += second.recv(1000)
        second.sendall(LIVE[:9])  # the next one on the same connection
        started = time.monotonic()
        for byte in LIVE[:20]:  # one after the other does not begin anew
            try:
                dripping.sendall(bytes([byte]))
            except OSError:
                break
            time.sleep(0.05)
        assert all(ended(one) for one in (silent, dripping, second))
        assert time.monotonic() - started < 5
    assert served.client().ready()


def test_a_request_that_takes_longer_is_answered(serving, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    served = serving()

    async def slow():
        import asyncio

        await asyncio.sleep(0.3)
        return True

    monkeypatch.setattr(served.service, "ready", slow)
    assert served.client().ready()


def test_no_more_connections_than_files(serving, monkeypatch):
    for files, most in ((1024, 896), (1 << 20, 4096), (100, 16), (-1, 4096)):
        monkeypatch.setattr(os, "sysconf", lambda _, files=files: files, raising=False)
        assert connections.most_connections() == most
    monkeypatch.setattr(connections, "MOST", 16)
    monkeypatch.setattr(connections, "SPARE", 4)
    served, open_ = serving(), []
    try:
        for _ in range(19):
            open_.append(connect(served))
        assert ended(open_[-1])
        open_[0].sendall(LIVE)
        assert b"503" in open_[0].recv(1000)
    finally:
        for one in open_:
            one.close()


HEAD = b"POST /v2/models/plane/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"GET /", b"a" * 4096),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX-", b"a" * 4096),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X-A: " + b"a" * 4096 + b"\r\n"),
        (HEAD + b"\r\n1;", b"a" * 4096),
        (HEAD + b"\r\n1\r\n1\r\n0\r\n", b"X-A: " + b"a" * 4096 + b"\r\n"),
        (HEAD + b"\r\n1\r\n1\r\n0\r\nX-A: ", b"a" * 4096),
    ],
    ids=["path", "name", "headers", "chunk", "trailers", "trailer"],
)
def test_headers_do_not_go_on_for_ever(serving, begun, more):
    """Nobody needs a key to send them, and they are kept in memory, also those beside and behind a body in parts."""
    served = serving()
    with connect(served) as stranger, pytest.raises(OSError, match=r"reset|pipe"):
        stranger.sendall(begun + more * 8192)  # 32 MiB, of which the kernel takes some
    assert served.client().ready()


def test_a_long_body_in_small_parts_is_read(serving, image):
    """Parts of a body may be as small as they like: only what is beside them is counted."""
    served, x = serving(), image(3.0)
    body = b'{"inputs":[{"name":"x","shape":[1,1,8,8],"datatype":"FP32","data":%s}]}' % str(x.ravel().tolist()).encode()
    body += b" " * (connections.HEADER_BYTES // 8)  # 6 bytes beside each
    parts = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert len(parts) - len(body) > connections.HEADER_BYTES / 2
    with connect(served) as asker:
        key = f"Authorization: Bearer {served.tokens['all']}\r\n\r\n".encode()
        asker.sendall(HEAD + key + parts)
        assert asker.recv(1000).startswith(b"HTTP/1.1 200")
