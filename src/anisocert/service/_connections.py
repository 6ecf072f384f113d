"""Limits on connections: how many there may be, and how long a client may take to send headers or to read answers.

uvicorn limits requests only, and for it a request begins once its headers are there. Requests are read by h11, which
answers one before it takes the next. httptools, which uvicorn prefers if it is installed, is faster but unsafe here: it
queues requests without bound, loses the end of a body behind `Upgrade`, and takes what follows a body for headers.
"""

import asyncio
import os
import socket
import sys
from typing import Any

from anisocert.errors import from_extra

with from_extra("serve", "the service needs uvicorn"):
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

MOST, LEAST = 4096, 16
SPARE = 128  # open files for everything else: the memory, keys, libraries
HEADER_SECONDS = 5.0
STUCK_SECONDS = 30.0
BYTES_ACKED = slice(120, 128)  # of Linux's tcp_info


def most_connections() -> int:
    """How many connections may ask at once, by how many files this process may open."""
    files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1  # RLIMIT_NOFILE; none on Windows
    return MOST if files < 0 else max(LEAST, min(MOST, files - SPARE))


def _acknowledged(transport: Any) -> int:
    """Bytes that the client has acknowledged, if the kernel tells: it empties our buffer in large steps only."""
    if sys.platform != "linux":
        return 0
    info = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED.stop)
    return int.from_bytes(info[BYTES_ACKED], sys.byteorder)


Base: Any = H11Protocol  # its own annotations are not ours to satisfy


class Connection(Base):  # type: ignore[misc]
    """uvicorn's, with these limits. Connections above `limit_concurrency` get its 503; many more are closed at once."""

    _waiting: asyncio.TimerHandle | None = None
    _watching: asyncio.TimerHandle | None = None
    _ended = False  # whether the client has stopped sending, and waits for its answers

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        super().connection_made(transport)
        if len(self.connections) > self.limit_concurrency + SPARE // 2:
            transport.abort()
        else:
            self._wait()
            self._watch(None)

    def data_received(self, data: bytes) -> None:
        """Stop waiting once there is a request. The next one here has as much time, from its first byte on."""
        super().data_received(data)
        if self._asked():
            self._stop()
        elif self._waiting is None:
            self._wait()

    def eof_received(self) -> bool:
        """Stay open for a client that has asked and only stopped sending. TLS has no half-closed connections."""
        self._ended = self.scheme == "http" and self._asked() and not self.cycle.more_body
        return self._ended

    def on_response_complete(self) -> None:
        """Take the next request, if there is one already; close if there will be none."""
        super().on_response_complete()
        if self._ended and not self._asked():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; once an answer has begun, end the connection instead."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # it must not answer as well
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        if self._watching is not None:
            self._watching.cancel()
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        return False  # uvicorn's would warn about it twice per request; clients that offer HTTP/2 do so each time

    def _asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if not self._asked():
            self.transport.abort()

    def _watch(self, before: tuple[int, int] | None) -> None:
        """Close the connection if the client has read nothing since the last look, although bytes were waiting."""
        waiting = self.transport.get_write_buffer_size()
        now = (waiting, _acknowledged(self.transport)) if waiting else None
        if now is not None and now == before:
            self.transport.abort()
        else:
            self._watching = self.loop.call_later(STUCK_SECONDS, self._watch, now)
