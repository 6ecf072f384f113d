"""Serving until told to stop: then nothing new is taken, what was begun is finished, and the process ends."""

import math
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from anisocert.errors import AnisocertError, ArgumentError, MissingExtraError
from anisocert.service._connections import Connection, most_connections
from anisocert.service._logging import log, start_logging
from anisocert.service.app import application
from anisocert.service.service import Service

try:
    import uvicorn
except ImportError as error:
    raise MissingExtraError("the service needs uvicorn: pip install 'anisocert[serve]'") from error

BACKLOG = 2048
DRAIN = 5  # seconds beyond the time limit of a request, in which open connections may end


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
        """Of the service, with the port that it listens on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.key is None else 'https'}://{host}:{port}/"

    def listening(self) -> socket.socket:
        """A socket that listens there; an error if it cannot."""
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


def server_of(service: Service, address: Address) -> uvicorn.Server:
    """The server, not yet started: its `run` takes the sockets that it listens on."""
    config = uvicorn.Config(
        application(service), log_config=None, access_log=False, server_header=False, lifespan="on",
        ssl_certfile=address.certificate, ssl_keyfile=address.key,
        timeout_graceful_shutdown=math.ceil(service.limits.seconds) + DRAIN, timeout_keep_alive=30,
        limit_concurrency=most_connections(),
        http=Connection, ws="none",
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(service: Service, address: Address, on_start: Callable[[int], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT, and until what was begun by then is done. on_start: called with the port.

    Raises:
        AnisocertError: the memory did not answer in the end, and nobody waits for it any longer.
    """
    # uvicorn takes both while it serves, and raises them again afterwards, when there is nothing left to interrupt.
    before = {one: signal.signal(one, lambda *_: None) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        with address.listening() as listening:
            port = int(listening.getsockname()[1])
            start_logging()
            on_start(port)
            log("serving", model=service.name, version=service.version, host=address.host, port=port)
            server_of(service, address).run([listening])
    finally:
        ended = service.close()
        log("stopped", ended=ended)
        for one, handler in before.items():
            signal.signal(one, handler)
    if not ended:
        raise AnisocertError(
            "expected the memory to take what was under way, got no answer: what it has not stored is lost"
        )
