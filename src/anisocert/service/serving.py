"""Serving until told to stop: then nothing new is taken, what was begun is finished, and the process ends."""

import asyncio
import math
import os
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from anisocert.errors import AnisocertError, ArgumentError, from_extra
from anisocert.service import _connections as connections
from anisocert.service._logging import log, start_logging
from anisocert.service.app import application
from anisocert.service.limits import HEADER_BYTES
from anisocert.service.service import Service

with from_extra("serve", "the service needs uvicorn"):
    import uvicorn

BACKLOG = 2048
DRAIN = 5  # seconds beyond the time limit of a request, in which open connections may end
CUT = 1  # seconds before the end of that time, when those that have not ended are cut


@dataclass(frozen=True)
class Address:
    """Where to listen. port 0: any that is free. certificate, key: PEM files; both, for https, or neither."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ArgumentError("expected both a certificate and its key for TLS, or neither, got one")

    def url(self, port: int) -> str:
        """The service's URL. port: that it listens on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.key is None else 'https'}://{host}:{port}/"

    def listening(self) -> socket.socket:
        """A socket that listens there; an error if it cannot, or if the certificate cannot be used."""
        self._expect_pair()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # TCP by name: asyncio sends at once only what goes through a socket that says so, else an answer takes 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self.host, self.port))
            listening.listen(BACKLOG)
        except BaseException as error:
            listening.close()
            if isinstance(error, OSError):
                why = (error.strerror or str(error)).lower()
                raise ArgumentError(
                    f"expected an address to listen on, got {self.host}, port {self.port}: {why}; use --port or --host"
                ) from error
            raise
        return listening

    def _expect_pair(self) -> None:
        if self.certificate is None or self.key is None:
            return

        def passphrase() -> str:  # else it is asked for on the terminal
            raise ArgumentError(f"expected a key without a passphrase in {self.key} (--tls-key), got one with it")

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, passphrase)
        except OSError as error:  # also of OpenSSL
            raise ArgumentError(
                f"expected a certificate and its key, PEM, in {self.certificate} (--tls-certificate) and {self.key} "
                f"(--tls-key), got: {getattr(error, 'reason', None) or error.strerror or error}"
            ) from error


Base: Any = uvicorn.Server  # its own annotations are not ours to satisfy


class Server(Base):  # type: ignore[misc]
    """uvicorn's, which gives a TLS handshake as little time as headers: by default it would be a minute.

    When it stops, connections whose clients neither read nor write are cut before their requests are cancelled, which
    would log an error for each. A second Ctrl-C changes nothing: uvicorn would answer all that is under way with 500,
    and votes that have begun are counted all the same.
    """

    def handle_exit(self, *given: Any) -> None:
        """Stop, after what was begun."""
        super().handle_exit(*given)
        self.force_exit = False

    async def startup(self, *given: Any, **named: Any) -> None:
        """Begin to listen."""
        loop: Any = asyncio.get_running_loop()
        if self.config.ssl is not None:
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=connections.HEADER_SECONDS)
        await super().startup(*given, **named)

    async def shutdown(self, *given: Any, **named: Any) -> None:
        """Take no more, and finish what was begun."""
        last = asyncio.get_running_loop().call_later(self.config.timeout_graceful_shutdown - CUT, self._cut)
        try:
            await super().shutdown(*given, **named)
        finally:
            last.cancel()

    def _cut(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def server_of(service: Service, address: Address) -> uvicorn.Server:
    """The server, not yet started: its `run` takes the sockets that it listens on."""
    config = uvicorn.Config(
        application(service), log_config=None, access_log=False, server_header=False, lifespan="on",
        ssl_certfile=address.certificate, ssl_keyfile=address.key,
        timeout_graceful_shutdown=math.ceil(service.limits.seconds) + DRAIN, timeout_keep_alive=30,
        limit_concurrency=connections.most_connections(),
        http=connections.Connection, ws="none", h11_max_incomplete_event_size=HEADER_BYTES,
    )  # fmt: skip
    return Server(config)


def serve(service: Service, address: Address, on_start: Callable[[int], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT, and until what was begun by then is done. on_start: called with the port.

    Raises:
        AnisocertError: the memory did not answer in the end, and nobody waits for it any longer.
    """
    # uvicorn takes both while it serves, and raises them again afterwards, when there is nothing left to interrupt.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    lines = start_logging()
    try:
        with address.listening() as listening:
            port = int(listening.getsockname()[1])
            on_start(port)
            log("serving", model=service.name, version=service.version, host=address.host, port=port)
            server_of(service, address).run([listening])
    finally:
        ended = service.close()
        log("stopped", ended=ended)
        lines.flush()
        for number, handler in before.items():
            signal.signal(number, handler)
    if not ended:
        raise AnisocertError(
            "expected the memory to take what was under way, got no answer: what it has not stored is lost"
        )
