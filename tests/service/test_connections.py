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
