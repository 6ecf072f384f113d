"""Connections that a stranger may hold: so many, for seconds until the headers of a request are there, and few bytes.

uvicorn bounds none of it: its limits concern requests, which begin with their headers. Requests are read by h11, which
answers one before it takes the next. httptools, which uvicorn prefers where it finds it, is quicker and unsafe here: it
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
    """How many connections may ask at once: as many as the files that this process may open allow."""
    files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1  # RLIMIT_NOFILE; none on Windows
    return MOST if files < 0 else max(LEAST, min(MOST, files - SPARE))


def _acknowledged(transport: Any) -> int:
    """Bytes that have arrived at the other side, where the kernel tells: it empties our buffer in large steps only."""
    if sys.platform != "linux":
        return 0
    told = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED.stop)
    return int.from_bytes(told[BYTES_ACKED], sys.byteorder)


Base: Any = H11Protocol  # its own annotations are not ours to satisfy


class Connection(Base):  # type: ignore[misc]
    """uvicorn's, with those bounds. Requests above `limit_concurrency` get its 503; many more are not listened to."""

    _waiting: asyncio.TimerHandle | None = None
    _watching: asyncio.TimerHandle | None = None
    _ended = False  # whether the other side sends no more, and waits for its answers

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        super().connection_made(transport)
        if len(self.connections) > self.limit_concurrency + SPARE // 2:
            transport.abort()
        else:
            self._wait()
            self._watch(None)

    def data_received(self, data: bytes) -> None:
        """Stop waiting once there is a request; a next one on this connection has as much time from its first byte."""
        super().data_received(data)
        if self._asked():
            self._stop()
        elif self._waiting is None:
            self._wait()

    def eof_received(self) -> bool:
        """Stay open for who has asked and only sends no more; TLS knows no such half of a connection."""
        self._ended = self.scheme == "http" and self._asked() and not self.cycle.more_body
        return self._ended

    def on_response_complete(self) -> None:
        """Take the next request, if there is one already; close if there will be none."""
        super().on_response_complete()
        if self._ended and not self._asked():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; what follows an answer that has begun ends the connection."""
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
        """Give up on who has read nothing since the last time, though something waited for him then and does now."""
        waiting = self.transport.get_write_buffer_size()
        now = (waiting, _acknowledged(self.transport)) if waiting else None
        if now is not None and now == before:
            self.transport.abort()
        else:
            self._watching = self.loop.call_later(STUCK_SECONDS, self._watch, now)
