"""A thousand malformed bodies: each is refused, none is an error of ours, none gets to know anything."""

import asyncio
import collections
import copy
import http.client
import json
import random

import numpy as np

COUNT = 1000
LEAKS = (b"Traceback", b"/site-packages/", b".py", b"torch", b"object at 0x", b"0.7071", b"anisocert_")
JUNK = (
    None,
    True,
    -1,
    0,
    3,
    10**30,
    1e308,
    -0.0,
    "",
    "x",
    "FP32",
    "\u0000",
    "../../etc/passwd",
    [],
    [[]],
    {},
    {"a": []},
)


def question(x: np.ndarray) -> dict:
    return {
        "id": "a", "parameters": {"lookup": False, "n": 50, "timeout": 5_000_000},
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist(), "parameters": {}}
        ],
        "outputs": [{"name": "prediction", "parameters": {"binary_data": False}}, {"name": "evidence"}],
    }  # fmt: skip


def places(value, path=()):
    """Paths to every part of a JSON value, but no further than the first numbers of a list."""
    yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*path, name))
    if isinstance(value, list):
        for i, one in enumerate(value[:2]):
            yield from places(one, (*path, i))


def changed(draw: random.Random, value):
    """The value with one part replaced, removed, renamed or repeated."""
    path = draw.choice([one for one in places(value) if one])
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    how = draw.randrange(3)
    if how == 0:
        del inner[path[-1]]
    elif how == 1 and isinstance(inner, list):
        inner.append(inner[path[-1]])
    else:
        inner[path[-1]] = copy.deepcopy(draw.choice(JUNK))
    return value


def body_of(draw: random.Random, x: np.ndarray) -> tuple[bytes, str | None]:
    """(a body, what it says of the length of its JSON)."""
    said = question(x)
    for _ in range(draw.randint(1, 3)):
        said = changed(draw, said) if said else said
    text = json.dumps(said).encode()
    kind = draw.randrange(5)
    if kind == 0:  # torn or with other bytes in it
        at = draw.randrange(len(text))
        text = text[:at] + draw.randbytes(draw.randint(0, 20)) + text[at + draw.randint(0, 50) :]
    elif kind == 1:
        text = draw.randbytes(draw.randint(0, 300))
    elif kind == 2:
        raw = draw.randbytes(draw.randint(0, 300))
        said["inputs"] = [{"name": "x", "datatype": draw.choice(["FP32", "FP16", "BYTES"]), "shape": [1, 1, 8, 8],
                           "parameters": {"binary_data_size": draw.choice([256, len(raw), -1, 1 << 62])}}]  # fmt: skip
        text = json.dumps(said).encode()
        length = draw.choice([len(text), len(text) - 1, 0, -5, "a", 10**15])
        return text + raw, str(length)
    return text, None


async def posted(app, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """(status, body) of what an ASGI application answers, without a socket, which would take most of the time."""
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    found, path = [], "/v2/models/plane/infer"
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()], "http_version": "1.1",
    }  # fmt: skip

    async def receive():
        return sent.pop() if sent else await asyncio.Future()

    async def send(message):
        found.append(message)

    await app(scope, receive, send)
    return found[0]["status"], b"".join(one.get("body", b"") for one in found[1:])


def test_malformed_bodies(serving, image, run):
    served, draw, x = serving(), random.Random(0), np.full((1, 1, 8, 8), 0.70710678, np.float32)
    served.client("client").answer(image(3.0)[None])
    (promise,) = served.service.system.memory.entries()
    statuses = collections.Counter[int]()

    def expect_refused(body: bytes, status: int, said: bytes) -> None:
        statuses[status] += 1
        assert status < 500, (body, said)
        assert status == 200 or list(json.loads(said)) == ["error"]
        assert len(said) < 2000
        assert not any(leak in said for leak in (*LEAKS, str(promise.id).encode())), said

    def headers(length: str | None) -> dict[str, str]:
        said = {} if length is None else {"Inference-Header-Content-Length": length}
        return {"Authorization": f"Bearer {served.tokens['client']}"} | said

    async def without_sockets() -> None:
        for _ in range(COUNT):
            body, length = body_of(draw, x)
            expect_refused(body, *await posted(served.server.config.app, body, headers(length)))

    run(without_sockets())
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
    for _ in range(COUNT // 20):
        body, length = body_of(draw, x)
        connection.request("POST", "/v2/models/plane/infer", body, headers(length))
        response = connection.getresponse()
        expect_refused(body, response.status, response.read())
    assert statuses[400] > 0.8 * COUNT, statuses  # some changes leave a question that may be asked
    assert served.service.ready
    assert served.service.system.memory.check().ok
    assert int(served.client("client").answer(image(-3.0)[None]).prediction[0]) == 1
