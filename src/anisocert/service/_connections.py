"""Connections that a stranger may hold: so many, for seconds until the headers of a request are there, and few bytes.

uvicorn bounds none of it: its limits concern requests, which begin with their headers.
"""

import asyncio
import os
from typing import Any

from anisocert.errors import MissingExtraError

try:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ImportError as error:
    raise MissingExtraError("the service needs uvicorn: pip install 'anisocert[serve]'") from error

MOST, LEAST = 4096, 16
SPARE = 128  # open files for everything else: the memory, keys, libraries
HEADER_SECONDS = 5.0
HEADER_BYTES = 64 << 10


def most_connections() -> int:
    """How many connections may ask at once: as many as the files that this process may open allow."""
    files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1  # RLIMIT_NOFILE; none on Windows
    return MOST if files < 0 else max(LEAST, min(MOST, files - SPARE))


Base: Any = AutoHTTPProtocol  # httptools', where it is installed, else h11's, which bounds headers by itself


class Connection(Base):  # type: ignore[misc]
    """uvicorn's, with those bounds. Requests above `limit_concurrency` get its 503; many more are not listened to."""

    _waiting: asyncio.TimerHandle | None = None
    _useless = 0  # bytes since the last that ended headers or a request, or were of a body: so far, only headers

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        super().connection_made(transport)
        if len(self.connections) > self.limit_concurrency + SPARE // 2:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once there is a request; a next one on this connection has as much time from its first byte."""
        self._useless += len(data)
        super().data_received(data)
        if self._useless > HEADER_BYTES and hasattr(Base, "on_body"):
            self.transport.abort()
        if self._asked():
            self._stop()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    # What httptools calls; behind a body in parts there may be headers once more, and beside each part anything.

    def on_headers_complete(self) -> None:
        """Count anew."""
        self._useless = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count anew."""
        self._useless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count anew."""
        self._useless = 0
        super().on_message_complete()

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
