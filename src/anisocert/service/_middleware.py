"""What surrounds every request: a check of its headers, a clock, a line in the log, and headers against misuse."""

import logging
from time import perf_counter
from typing import Any

from starlette.responses import JSONResponse

from anisocert.service._logging import log
from anisocert.service._metrics import Metrics
from anisocert.service.limits import HEADER_BYTES

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)

CLOSE = {"Connection": "close"}
TOO_LONG = JSONResponse({"error": f"expected headers of at most {HEADER_BYTES} bytes, got longer ones"}, 431, CLOSE)
# With both, a proxy and h11 may see different ends of a body, and its rest would pass for another client's request.
TWO_LENGTHS = JSONResponse({"error": "expected either Content-Length or Transfer-Encoding, got both"}, 400, CLOSE)


class Watched:
    """An ASGI application around another. The log names the route, never the path: that is the client's text."""

    def __init__(self, inner: Any, metrics: Metrics) -> None:
        self.inner, self.metrics = inner, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request, or pass anything else on."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        started, status = perf_counter(), 0
        state = scope.setdefault("state", {})

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            await (_refusal(scope) or self.inner)(scope, receive, watched)
        except Exception as error:
            self.metrics.failures.labels("request").inc()
            log("request failed", logging.ERROR, error)
        finally:
            self._done(scope, state, status, perf_counter() - started)

    def _done(self, scope: Any, state: dict[str, Any], status: int, seconds: float) -> None:
        route = getattr(scope.get("endpoint"), "__name__", "none")
        self.metrics.requests.labels(route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        facts = {name: state[name] for name in ("key", "inputs") if name in state}
        log("request", route=route, status=status, milliseconds=round(1000 * seconds, 2), **facts)


def _refusal(scope: Any) -> JSONResponse | None:
    if _size(scope) > HEADER_BYTES:
        return TOO_LONG
    return TWO_LENGTHS if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]} else None


def _size(scope: Any) -> int:
    """Bytes of headers and address. h11 limits them only if they arrive in several parts."""
    address = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return address + sum(len(name) + len(value) + len(b": \r\n") for name, value in scope["headers"])
