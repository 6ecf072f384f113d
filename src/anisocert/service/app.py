"""The service over HTTP: the Open Inference Protocol v2, metrics, and a page for people.

Starlette rather than FastAPI: bodies are bounded while they arrive, may be binary and are read by hand, so that
FastAPI's models would describe them and check nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

from anisocert import __version__
from anisocert.bounds import Plan
from anisocert.errors import AnisocertError, MissingExtraError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtraError("the service needs starlette and uvicorn: pip install 'anisocert[serve]'") from error

from anisocert.service._budget import Budget
from anisocert.service._logging import log
from anisocert.service._middleware import Watched
from anisocert.service._openapi import openapi
from anisocert.service._page import docs_page, examples_of, front_page, state_of
from anisocert.service._question import INPUT, OUTPUTS, Question, read_question
from anisocert.service._tensors import HEADER_LENGTH, joined
from anisocert.service.errors import RefusedError
from anisocert.service.keys import OPERATE, Key
from anisocert.service.service import PATIENCE, Service

EXTENSIONS = ["binary_tensor_data"]
SMALL = 32 << 10  # bytes of a body that is read sooner than it is handed to a thread


def application(service: Service) -> Any:
    """The ASGI application of a service, which it closes when it ends."""
    handlers = _Handlers(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    model = ["/v2/models/{name}", "/v2/models/{name}/versions/{version}"]
    routes = [
        Route("/", handlers.page),
        Route("/docs", handlers.docs),
        Route("/openapi.json", handlers.openapi),
        Route("/examples", handlers.examples),
        Route("/memory", handlers.memory),
        Route("/metrics", handlers.metrics),
        Route("/v2", handlers.server),
        Route("/v2/health/live", handlers.live),
        Route("/v2/health/ready", handlers.ready),
        *(Route(path, handlers.model) for path in model),
        *(Route(f"{path}/ready", handlers.model_ready) for path in model),
        *(Route(f"{path}/infer", handlers.infer, methods=["POST"]) for path in model),
    ]
    refused: dict[Any, Any] = {
        RefusedError: _refused,
        HTTPException: _http,
        ClientDisconnect: _gone,
        Exception: _failed,
    }
    inner = Starlette(routes=routes, exception_handlers=refused, lifespan=lifespan)
    inner.router.redirect_slashes = False  # it would send clients, and their keys, wherever their header Host says
    return Watched(inner, service.metrics)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail).lower()}, error.status_code, error.headers)


async def _gone(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the body did not arrive"}, 400)


async def _failed(*_: object) -> Response:
    return JSONResponse({"error": "the service failed: its log says more"}, 500)


class _Handlers:
    def __init__(self, service: Service) -> None:
        self.service, self.bodies = service, Budget(service.limits.bodies_bytes)

    async def page(self, _: Request) -> Response:
        return front_page(self.service)

    async def docs(self, _: Request) -> Response:
        return docs_page(self.service)

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(openapi(self.service.name))

    async def live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        ready = await self.service.ready()
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def server(self, _: Request) -> Response:
        said = {"name": "anisocert", "version": __version__, "extensions": EXTENSIONS, "models": [self.service.name]}
        return JSONResponse(said)

    async def model(self, request: Request) -> Response:
        self._expect_model(request)
        shape = [-1] if self.service.shape is None else [-1, *self.service.shape]
        wide = {"region", "theta"}
        return JSONResponse(
            {
                "name": self.service.name, "versions": [self.service.version], "platform": "anisocert",
                "inputs": [{"name": INPUT, "datatype": "FP32", "shape": shape}],
                "outputs": [
                    {"name": name, "datatype": kind, "shape": shape if name in wide else [-1]}
                    for name, (kind, _) in OUTPUTS.items()
                ],
            }
        )  # fmt: skip

    async def model_ready(self, request: Request) -> Response:
        self._expect_model(request)
        return await self.ready(request)

    async def examples(self, request: Request) -> Response:
        self._key(request)
        return JSONResponse(examples_of(self.service))

    async def memory(self, request: Request) -> Response:
        self._key(request, OPERATE)
        return JSONResponse(state_of(self.service, await self.service.stats()))

    async def metrics(self, request: Request) -> Response:
        self._key(request, OPERATE)
        try:
            now = await self.service.stats()
        except RefusedError:
            now = None
        return Response(self.service.metrics.text(now), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def infer(self, request: Request) -> Response:
        service, key = self.service, self._key(request)
        self._expect_model(request)
        service.rates.take(key)
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RefusedError(415, "expected a body that is not compressed, got a compressed one")
        with self.bodies.share() as take:
            return await self._answered(request, key, await self._body(request, key, take))

    async def _answered(self, request: Request, key: Key, body: bytes) -> Response:
        service, began = self.service, monotonic()
        until = began + service.limits.seconds
        read = partial(read_question, body, request.headers.get(HEADER_LENGTH), service.limits.inputs)
        question = read() if len(body) <= SMALL else await service.within(read, until)
        until = min(until, began + (question.timeout or service.limits.seconds))
        request.state.inputs = len(question.x)

        def first() -> tuple[Plan, list[Any], Response | None]:
            plan, known = service.known(question, key)
            done = question.lookup or None not in known
            return plan, known, self._told(question, known, key) if done else None

        plan, known, told = await service.within(first, until)
        if told is not None:
            return told
        answers = await service.answers(question, plan, known, until)
        # What was promised in time is told: looking up whose promise it is gets a moment more.
        return await service.within(lambda: self._told(question, answers, key), until + PATIENCE)

    def _told(self, question: Question, answers: list[Any], key: Key) -> Response:
        head = {"model_name": self.service.name, "model_version": self.service.version}
        head |= {"id": question.id} if question.id else {}
        tensors = self.service.tell(question, answers, key)
        body, length = joined(head, tensors, question.outputs, "outputs")
        if length is None:
            return Response(body, media_type="application/json")
        return Response(body, media_type="application/octet-stream", headers={HEADER_LENGTH: str(length)})

    def _key(self, request: Request, right: str | None = None) -> Key:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            key = self.service.keys.holder(token.strip()) if kind.lower() == "bearer" else None
        except AnisocertError as error:  # a file that cannot be read gives nobody a right
            log("keys cannot be read", logging.ERROR, error)
            raise RefusedError(503, "the keys of this service cannot be read", 5) from error
        if key is None:
            got = "another" if token.strip() and kind.lower() == "bearer" else "none"
            raise RefusedError(
                401, f"expected the header Authorization: Bearer KEY with a key of this service, got {got}"
            )
        request.state.key = key.name
        if right is not None and not key.may(right):
            raise RefusedError(403, f"expected a key with the right {right}, got one without")
        return key

    def _expect_model(self, request: Request) -> None:
        name, version = request.path_params["name"], request.path_params.get("version", self.service.version)
        if (name, version) != (self.service.name, self.service.version):
            raise RefusedError(404, "expected the name of the model that is served, and its version, got another")

    async def _body(self, request: Request, key: Key, take: Callable[[int], None]) -> bytes:
        """The body, as long as it is short enough and comes in time: nothing is parsed before."""
        most = min(key.most_bytes, self.service.limits.body_bytes)
        too_long = RefusedError(413, f"expected a body of at most {most} bytes for this key, got a longer one")
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()) or len(length) > 15 or int(length) > most:
            raise too_long
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self.service.limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise too_long
                    take(len(part))
                    parts.append(part)
        except TimeoutError as error:
            raise RefusedError(408, "expected the whole body in time, got a part of it") from error
        return b"".join(parts)
