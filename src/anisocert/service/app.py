"""The service over HTTP: the Open Inference Protocol v2, metrics, and a page for people.

Starlette rather than FastAPI: bodies are bounded while they arrive, may be binary and are read by hand, so that
FastAPI's models would describe them and check nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

from anisocert import __version__
from anisocert.errors import from_extra

with from_extra("serve", "the service needs starlette and uvicorn"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

from anisocert.service._budget import Budget
from anisocert.service._middleware import Watched
from anisocert.service._openapi import openapi
from anisocert.service._page import docs_page, examples_of, front_page, state_of
from anisocert.service._question import INPUT, OUTPUTS, WIDE, Question, read_question
from anisocert.service._requests import body_of, key_of
from anisocert.service._telling import Answer
from anisocert.service._tensors import HEADER_LENGTH, joined
from anisocert.service.errors import RefusedError
from anisocert.service.keys import OPERATE, Key
from anisocert.service.service import PATIENCE, Service

EXTENSIONS = ["binary_tensor_data"]
SHORT = 32 << 10  # bytes: a body of no more is read in less time than it takes to hand it to a thread
FEW = 16  # answers: no more are written in less time than that


def application(service: Service) -> Any:
    """The ASGI application of a service, which it closes when it ends."""
    handlers = _Handlers(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    model = ["/v2/models/{name}", "/v2/models/{name}/versions/{version}"]
    routes = [  # looked through in this order
        *(Route(f"{path}/infer", handlers.infer, methods=["POST"]) for path in model),
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
    ]
    exception_handlers: dict[Any, Any] = {
        RefusedError: _refused,
        HTTPException: _http,
        ClientDisconnect: _gone,
        Exception: _failed,
    }
    inner = Starlette(routes=routes, exception_handlers=exception_handlers, lifespan=lifespan)
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
        self.offered = JSONResponse(examples_of(service))

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
        server = {"name": "anisocert", "version": __version__, "extensions": EXTENSIONS, "models": [self.service.name]}
        return JSONResponse(server)

    async def model(self, request: Request) -> Response:
        self._expect_model(request)
        shape = [-1, *self.service.shape]
        return JSONResponse(
            {
                "name": self.service.name, "versions": [self.service.version], "platform": "anisocert",
                "inputs": [{"name": INPUT, "datatype": "FP32", "shape": shape}],
                "outputs": [
                    {"name": name, "datatype": kind, "shape": shape if name in WIDE else [-1]}
                    for name, (kind, _) in OUTPUTS.items()
                ],
            }
        )  # fmt: skip

    async def model_ready(self, request: Request) -> Response:
        self._expect_model(request)
        return await self.ready(request)

    async def examples(self, request: Request) -> Response:
        key_of(request, self.service.keys)
        return self.offered

    async def memory(self, request: Request) -> Response:
        key_of(request, self.service.keys, OPERATE)
        return JSONResponse(state_of(self.service, await self.service.stats()))

    async def metrics(self, request: Request) -> Response:
        key_of(request, self.service.keys, OPERATE)
        try:
            now = await self.service.stats()
        except RefusedError:
            now = None
        return Response(self.service.metrics.text(now), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def infer(self, request: Request) -> Response:
        service, key = self.service, key_of(request, self.service.keys)
        self._expect_model(request)
        service.rates.take(key)
        with self.bodies.share(key.name) as take:
            return await self._answered(request, key, await body_of(request, key, service.limits, take), take)

    async def _answered(self, request: Request, key: Key, body: bytes, take: Callable[[int], None]) -> Response:
        service, began, short = self.service, monotonic(), len(body) <= SHORT
        until = began + service.limits.seconds
        read = partial(read_question, body, request.headers.get(HEADER_LENGTH), service.limits.inputs)
        question = await service.work(read, until, short)
        take(question.answer_bytes)
        until = min(until, began + (question.timeout or service.limits.seconds))
        request.state.inputs = len(question.x)
        plan = await service.plan_of(question, key, until, short)
        answers = await service.answers(question, plan, until)
        quick = short and len(answers) <= FEW and service.teller.is_quick(question.outputs, answers, key)
        # What was promised in time is told: looking up whose promise it is gets a moment more.
        until += 0.0 if question.lookup else PATIENCE
        return await service.work(partial(self._told, question, answers, key), until, quick)

    def _told(self, question: Question, answers: list[Answer], key: Key) -> Response:
        head = {"model_name": self.service.name, "model_version": self.service.version}
        head |= {"id": question.id} if question.id else {}
        tensors = self.service.tell(question, answers, key)
        body, length = joined(head, tensors, question.outputs, "outputs")
        if length is None:
            return Response(body, media_type="application/json")
        return Response(body, media_type="application/octet-stream", headers={HEADER_LENGTH: str(length)})

    def _expect_model(self, request: Request) -> None:
        name, version = request.path_params["name"], request.path_params.get("version", self.service.version)
        if (name, version) != (self.service.name, self.service.version):
            raise RefusedError(404, "expected the model that is served and its version, which /v2 names, got another")
