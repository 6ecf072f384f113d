"""Connections of strangers: few enough, and not for long before they have asked something."""

import contextlib
import logging
import os
import re
import socket
import time

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install '.[serve]'")
pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
from anisocert.service import _connections as connections
from anisocert.service import _middleware
from anisocert.service import serving as serving_module
from anisocert.service.limits import HEADER_BYTES, Limits

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
    body += b" " * (HEADER_BYTES // 8)  # 6 bytes beside each
    parts = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert len(parts) - len(body) > HEADER_BYTES / 2
    with connect(served) as asker:
        key = f"Authorization: Bearer {served.tokens['all']}\r\n\r\n".encode()
        asker.sendall(HEAD + key + parts)
        assert asker.recv(1000).startswith(b"HTTP/1.1 200")


def everything(connection):
    """All that comes until the other side closes."""
    found = b""
    while some := connection.recv(1 << 16):
        found += some
    return found


def statuses(answered):
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d+)", answered)]


def inference(served, *headers, x=None, close=True):
    values = np.zeros((1, 1, 8, 8), np.float32) if x is None else x
    body = b'{"inputs":[{"name":"x","shape":[1,1,8,8],"datatype":"FP32","data":%s}]}' % (
        str(values.ravel().tolist()).encode()
    )
    more = [f"Authorization: Bearer {served.tokens['all']}", f"Content-Length: {len(body)}", *headers]
    more += ["Connection: close"] * close
    return b"POST /v2/models/plane/infer HTTP/1.1\r\nHost: a\r\n" + "\r\n".join(more).encode() + b"\r\n\r\n" + body


def test_a_body_of_two_lengths_is_refused_and_nothing_behind_it_is_read(serving):
    """What the one length leaves of the body would be a request of its own."""
    served = serving()
    with connect(served) as asker:
        asker.sendall(inference(served, "Transfer-Encoding: chunked", close=False).partition(b"\r\n\r\n")[0])
        asker.sendall(b"\r\n\r\n0\r\n\r\n" + LIVE)
        answered = everything(asker)
    assert statuses(answered) == [400]
    assert b"expected either Content-Length or Transfer-Encoding, got both" in answered


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_offer_to_upgrade_changes_nothing(serving, caplog, protocol):
    """Neither where a body ends, so that nothing in it is taken for a request, nor whether one is answered."""
    served, offer = serving(), f"Connection: Upgrade\r\nUpgrade: {protocol}"
    with connect(served) as sly:
        sly.sendall(f"POST /none HTTP/1.1\r\nHost: a\r\n{offer}\r\nContent-Length: {len(LIVE)}\r\n\r\n".encode())
        time.sleep(0.1)
        sly.sendall(LIVE)
        sly.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answered = everything(sly)
    assert statuses(answered) == [404, 200]
    assert b'{"live":true}' not in answered
    with connect(served) as java:
        java.sendall(inference(served, offer, "HTTP2-Settings: AAEAAEAA", close=False))
        assert java.recv(1000).startswith(b"HTTP/1.1 200")
    assert "upgrade" not in caplog.text.lower()


def test_what_follows_a_body_is_no_header(serving):
    served = serving()
    key = f"Authorization: Bearer {served.tokens['all']}\r\n".encode()
    with connect(served) as sly:
        sly.sendall(HEAD + b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\n" + key + b"\r\n")
        assert statuses(everything(sly)) == [401]


def test_who_asks_without_waiting_is_not_listened_to(serving, monkeypatch):
    """Requests that are not answered yet stay with who sends them, and others are answered meanwhile."""
    taken, before = [0], connections.Connection.data_received

    def counted(self, data):
        taken[0] += len(data)
        before(self, data)

    monkeypatch.setattr(connections.Connection, "data_received", counted)
    served, flood, most, waited = serving(), LIVE * 25_000, 0, []
    with connect(served) as stranger:
        stranger.setblocking(False)
        until, sent = time.monotonic() + 1.5, 0
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                sent += stranger.send(flood[sent % len(flood) :])
            with contextlib.suppress(BlockingIOError):
                stranger.recv(1 << 20)
            most = max(most, taken[0] - len(LIVE) * served.server.server_state.total_requests)
            assert len(served.server.server_state.tasks) < 10
            if len(waited) < 3:
                started = time.monotonic()
                assert served.client().ready()
                waited.append(time.monotonic() - started)
    assert sent > 1 << 20 > most
    assert min(waited) < 1


def test_headers_that_come_at_once_are_no_longer_than_others(serving, monkeypatch):
    long = LIVE[:-2] + b"Connection: close\r\nX-A: %s\r\n\r\n"
    served = serving()
    for size, allowed in ((HEADER_BYTES - 200, {200}), (HEADER_BYTES, {400, 431}), (3 * HEADER_BYTES, {400, 431})):
        with connect(served) as stranger:
            stranger.sendall(long % (b"a" * size))
            assert set(statuses(stranger.recv(1000))) <= allowed
    monkeypatch.setattr(_middleware, "HEADER_BYTES", 1000)  # so that they come in one piece
    for size, status in ((900, 200), (1000, 431)):
        with connect(served) as stranger:
            stranger.sendall(long % (b"a" * size))
            assert statuses(everything(stranger)) == [status]


PAGE = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"


def silent_reader(served):
    """Who asks for more than the kernel keeps, and reads nothing yet."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.settimeout(20)
    host, port = served.url.removeprefix("http://").split(":")
    reader.connect((host, int(port)))
    reader.sendall(PAGE * 1500)
    while not any(one.transport.get_write_buffer_size() for one in list(served.server.server_state.connections)):
        time.sleep(0.01)
    return reader


def test_who_does_not_read_is_given_up(serving, monkeypatch):
    monkeypatch.setattr(connections, "STUCK_SECONDS", 0.3)
    served = serving()
    with silent_reader(served):
        started = time.monotonic()
        while served.server.server_state.connections:
            assert time.monotonic() - started < 10
            time.sleep(0.05)
    assert not served.server.server_state.tasks


def test_who_reads_slowly_is_not(serving, monkeypatch):
    monkeypatch.setattr(connections, "STUCK_SECONDS", 0.3)
    served = serving()
    with silent_reader(served) as reader:
        started = time.monotonic()
        while time.monotonic() - started < 1.5:
            assert reader.recv(1 << 14)
            time.sleep(0.02)
        assert served.server.server_state.connections


def test_who_does_not_read_or_write_leaves_no_error_when_the_service_ends(serving, monkeypatch, caplog):
    for name in ("uvicorn", "anisocert", "asyncio"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    monkeypatch.setattr(serving_module, "DRAIN", 1)
    served = serving(limits=Limits(seconds=0.5))
    with silent_reader(served), connect(served) as half:
        half.sendall(inference(served)[:-10])
        while len(served.server.server_state.tasks) < 2:
            time.sleep(0.01)
        served.server.should_exit = True
        while served.server.server_state.tasks:
            time.sleep(0.05)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_who_sends_no_more_is_answered(serving, image):
    served, x = serving(), image(3.0)
    with connect(served) as asker:
        asker.sendall(inference(served, x=x, close=False) + PAGE + LIVE)
        asker.shutdown(socket.SHUT_WR)
        answered = everything(asker)
    assert statuses(answered) == [200, 200, 200]
    assert answered.endswith(b'{"live":true}')
    with connect(served) as half:
        half.sendall(inference(served)[:-10])
        half.shutdown(socket.SHUT_WR)
        assert 200 not in statuses(everything(half))


def test_what_is_no_http_behind_an_answer_ends_the_connection(serving, monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("asyncio"), "propagate", True)
    served = serving()
    with connect(served) as stranger:
        stranger.sendall(HEAD + b"\r\n")
        answered = b""
        while not answered.endswith(b"}"):
            answered += stranger.recv(1000)
        assert statuses(answered) == [401]
        stranger.sendall(b"none\r\n")
        assert ended(stranger)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert served.client().ready()
