"""A client of the service: arrays in, arrays out. Needs numpy and the standard library alone."""

import http.client
import json
import os
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError
from anisocert.inputs import exact_float32, told
from anisocert.service._question import USUAL
from anisocert.service._tensors import BYTES, HEADER_LENGTH, from_bytes, joined, split, texts_from_bytes
from anisocert.service.errors import ServiceError

SLACK = 5.0  # seconds beyond the time limit of a question, for the way there and back
LONGEST_WAIT = 10**6  # seconds: sockets take no more than some years
LONGEST_AFTER = 9  # digits of the seconds after which to ask again
# What reading an answer may fail with that is not the service's: a proxy's page, for one.
FOREIGN = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, struct.error)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Answers:
    """One per input. prediction: -1 where there is no answer. note: kept, shrunk, inherited, abstained or none.

    A radius of 0 beside a class: the promise was made to another input, and the key may not see regions. more: the
    outputs that were asked for besides, by name.
    """

    prediction: NDArray[np.int64]
    radius: NDArray[np.float64]
    proxy_radius: NDArray[np.float64]
    note: list[str]
    more: dict[str, Any]


class Client:
    """Asks a service at a URL such as http://127.0.0.1:8000. Safe to use from many threads and forked processes,
    each on its own connection.

    model: its name; default: the one that is served. seconds: to wait for an answer. context: for https, if the
    system's certificates are not the ones to trust.
    """

    def __init__(
        self, url: str, key: str, model: str | None = None, seconds: float = 60.0, context: ssl.SSLContext | None = None
    ) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except (AttributeError, ValueError):  # no text; a port that is no number up to 65535, half of an IPv6 address
            usable = False
        if not usable:
            raise ArgumentError(f"expected url as in http://127.0.0.1:8000, got {url!r}")
        if not isinstance(key, str) or not (key.isascii() and key.isprintable()):
            raise ArgumentError(
                "expected key as `anisocert keys add` printed it, got other characters than a key has: if it was read "
                "from a file, pass key.strip()"
            )
        _expect_seconds(seconds)
        self._place, self._key, self._seconds, self._context = parts, key, seconds, context
        self._model, self._own = model, threading.local()

    @property
    def model(self) -> str:
        """The name of the model that is asked."""
        if self._model is None:
            self._model = str(self._ask(lambda _, raw: json.loads(raw)["models"][0], "GET", "/v2"))
        return self._model

    def ready(self) -> bool:
        """Whether the service answers."""
        try:
            return self._exchange("GET", "/v2/health/ready")[0] == 200
        except ServiceError:
            return False

    def metadata(self) -> dict[str, Any]:
        """Inputs, outputs and version of the model."""
        return self._ask(_object, "GET", f"/v2/models/{quote(self.model, safe='')}")

    def memory(self) -> dict[str, Any]:
        """The state of the memory, for keys that may operate."""
        return self._ask(_object, "GET", "/memory")

    def answer(
        self,
        x: Any,
        *,
        lookup: bool = False,
        n: int | None = None,
        alpha: float | None = None,
        seconds: float | None = None,
        more: tuple[str, ...] = (),
    ) -> Answers:
        """The system's answers. x: `b x *shape`, exactly as float32.

        lookup: only what is promised. n, alpha: a smaller plan than the service's, for keys with the right plan.
        seconds: to wait, at most what the service allows. more: region, theta, evidence, sentence.

        Raises:
            ServiceError: no answer, and why; with `retry_after` where it is worth asking again.
        """
        points, wait = exact_float32("x", x), self._seconds if seconds is None else seconds
        _expect_seconds(wait)
        microseconds = max(1, int(wait * 1e6))  # 0 would be the service's own limit
        parameters = {"lookup": lookup, "n": n, "alpha": alpha, "timeout": microseconds, "binary_data_output": True}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
        head = {
            "parameters": {name: value for name, value in plain.items() if value is not None},
            "outputs": [{"name": name} for name in (*USUAL, *more)],
        }
        body, length = joined(head, {"x": points}, {"x": True}, "inputs")
        headers = {HEADER_LENGTH: str(length), "Content-Type": "application/octet-stream"}
        path = f"/v2/models/{quote(self.model, safe='')}/infer"
        return self._ask(_answers, "POST", path, body, headers, wait + SLACK)

    def _ask(self, read: Callable[[http.client.HTTPMessage, bytes], T], *request: Any) -> T:
        """What `read` makes of the answer's headers and body. request: as `_exchange` takes it."""
        status, headers, raw = self._exchange(*request)
        if status != 200:
            raise _error(status, headers, raw)
        try:
            return read(headers, raw)
        except FOREIGN as error:
            raise ServiceError(
                status,
                f"expected an answer of the service, got another from {self._place.netloc}: is the url the service's, "
                "and does the proxy in front of it, if there is one, pass its answers on?",
            ) from error

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        seconds: float | None = None,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """(status, headers, body). A connection that served before and is closed now is opened once more."""
        sent = {"Authorization": f"Bearer {self._key}", **(headers or {})}
        for fresh in (False, True):
            connection = self._connection(fresh, seconds or self._seconds)
            served = connection.sock is not None  # else the server may have read the question, which is asked once
            try:
                connection.request(method, self._place.path.rstrip("/") + path, body, sent)
                response = connection.getresponse()
                return response.status, response.headers, response.read()
            except (
                http.client.RemoteDisconnected,
                ConnectionResetError,
                BrokenPipeError,
                http.client.CannotSendRequest,
            ):
                connection.close()
                if not served:
                    raise ServiceError(0, "the service closed the connection without an answer") from None
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise ServiceError(0, f"the service at {self._place.netloc} gave no answer: {error}") from error
        raise AssertionError

    def _connection(self, fresh: bool, seconds: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        # A fork shares its parent's connection, where either might read the answer to the other's question.
        if connection is None or fresh or self._own.process != os.getpid():
            host, port = self._place.hostname or "", self._place.port
            if self._place.scheme == "https":
                connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=self._context)
            else:
                connection = http.client.HTTPConnection(host, port, timeout=seconds)
            self._own.connection, self._own.process = connection, os.getpid()
        connection.timeout = seconds
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        return connection


def _expect_seconds(seconds: float) -> None:
    if not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_WAIT:
        raise ArgumentError(f"expected seconds to wait, a number > 0, at most {LONGEST_WAIT:,}, got {told(seconds)}")


def _object(_: http.client.HTTPMessage, raw: bytes) -> dict[str, Any]:
    return split(raw, None)[0]


def _answers(headers: http.client.HTTPMessage, raw: bytes) -> Answers:
    head, rest = split(raw, headers.get(HEADER_LENGTH))
    outputs, at = dict[str, Any](), 0
    for output in head["outputs"]:
        size = output["parameters"]["binary_data_size"]
        part, at = rest[at : at + size], at + size
        texts = output["datatype"] == BYTES
        outputs[output["name"]] = (
            texts_from_bytes(part) if texts else from_bytes(part, output["datatype"], output["shape"])
        )
    return Answers(**{name: outputs.pop(name) for name in USUAL}, more=outputs)


def _error(status: int, headers: http.client.HTTPMessage, raw: bytes) -> ServiceError:
    try:
        message = str(json.loads(raw)["error"])
    except FOREIGN:
        message = "the service gave no reason"
    after = headers.get("Retry-After", "")
    return ServiceError(status, message, int(after) if after.isdecimal() and len(after) <= LONGEST_AFTER else None)
