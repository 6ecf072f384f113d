"""The protocol over HTTP: who may ask what, what is promised, and what nobody is told."""

import base64
import contextlib
import http.client
import json
import logging
import re
import signal
import sqlite3
import threading
import time
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

import anisocert as ac
from anisocert.memory import migrate
from anisocert.service import ServiceError, remove_key
from anisocert.service._openapi import ERRORS


def call(served, path, who=None, body=None, method=None, **headers):
    """(status, headers, body) of a request."""
    if who is not None:
        headers["Authorization"] = f"Bearer {served.tokens[who]}"
    request = urllib.request.Request(served.url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def asked(x, **more) -> bytes:
    one = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    return json.dumps({"inputs": [one]} | more).encode()


def outputs(body: bytes) -> dict:
    return {one["name"]: one["data"] for one in json.loads(body)["outputs"]}


INFER = "/v2/models/plane/infer"


def test_health_and_metadata_need_no_key(serving):
    served = serving()
    version = served.service.version
    for path in (
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/plane/ready",
        f"/v2/models/plane/versions/{version}/ready",
    ):
        assert call(served, path)[0] == 200, path
    assert json.loads(call(served, "/v2")[2]) == {
        "name": "anisocert", "version": ac.__version__, "extensions": ["binary_tensor_data"], "models": ["plane"],
    }  # fmt: skip
    said = json.loads(call(served, f"/v2/models/plane/versions/{version}")[2])
    assert said == json.loads(call(served, "/v2/models/plane")[2])
    assert (said["name"], said["versions"], said["platform"]) == ("plane", [version], "anisocert")
    assert said["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
    assert [one["name"] for one in said["outputs"]][:4] == ["prediction", "radius", "proxy_radius", "note"]


def test_an_answer_is_the_systems_and_is_kept(serving, image):
    served = serving()
    x = np.stack([image(3.0), image(-3.0), image(0.0, 5)])
    status, _, body = call(served, INFER, "client", asked(x, id="mine"))
    assert status == 200
    said = json.loads(body)
    assert (said["model_name"], said["model_version"], said["id"]) == ("plane", served.service.version, "mine")
    first = outputs(body)
    assert first["prediction"] == [0, 1, -1]
    assert first["note"] == ["kept", "kept", "abstained"]
    promise = next(served.service.system.memory.entries())
    np.testing.assert_array_equal(promise.region.center, x[0])
    assert (first["radius"][0], first["proxy_radius"][0]) == (promise.radius, promise.proxy_radius)
    again = outputs(call(served, f"/v2/models/plane/versions/{said['model_version']}/infer", "client", asked(x))[2])
    assert again["prediction"] == [0, 1, -1]
    assert again["note"] == ["inherited", "inherited", "abstained"]
    # The promise was made to this very input, and is told whole, less what rounding may take.
    assert again["radius"] == pytest.approx(first["radius"], rel=1e-9)
    assert all(now <= before for now, before in zip(again["radius"], first["radius"], strict=True))
    assert served.service.system.memory.submissions == 3


def test_lookup_certifies_nothing(serving, image):
    served = serving()
    x = image(3.0)[None]
    body = asked(x, parameters={"lookup": True})
    assert outputs(call(served, INFER, "lookup", body)[2]) == {
        "prediction": [-1], "radius": [0.0], "proxy_radius": [0.0], "note": ["none"],
    }  # fmt: skip
    assert served.service.system.memory.submissions == 0
    call(served, INFER, "client", asked(x))
    assert outputs(call(served, INFER, "lookup", body)[2])["prediction"] == [0]


@pytest.mark.parametrize(
    ("who", "path", "lookup", "status"),
    [
        (None, INFER, False, 401), ("lookup", INFER, False, 403), ("lookup", INFER, True, 200),
        ("admit", INFER, False, 200), ("admit", INFER, True, 403), ("operate", INFER, True, 403),
        ("regions", INFER, False, 403), ("all", "/v2/models/other/infer", False, 404),
        ("all", "/v2/models/plane/versions/1/infer", False, 404), (None, "/v2/models/other/infer", False, 401),
    ],
)  # fmt: skip
def test_rights_to_ask(serving, image, who, path, lookup, status):
    served = serving()
    found, headers, body = call(served, path, who, asked(image(3.0)[None], parameters={"lookup": lookup}))
    assert found == status
    assert (headers["WWW-Authenticate"] == "Bearer") == (status == 401)
    if status != 200:
        assert list(json.loads(body)) == ["error"]
        assert served.service.system.memory.submissions == 0


@pytest.mark.parametrize(("path", "needed"), [("/metrics", "operate"), ("/memory", "operate"), ("/examples", None)])
def test_rights_to_read(serving, path, needed):
    served = serving()
    assert call(served, path)[0] == 401
    for who in ("lookup", "admit", "regions", "operate"):
        assert call(served, path, who)[0] == (200 if needed in (None, who) else 403)
    remove_key(served.keys, "operate")
    assert call(served, path, "operate")[0] == 401


def test_examples_are_written_once(serving, image, monkeypatch):
    """Any key may ask for them, as often as it likes, and the event loop sends them."""
    from anisocert.service.service import Examples

    served = serving(examples=Examples(np.stack([image(3.0), image(-3.0)]), (0, 1)))
    monkeypatch.setattr("anisocert.service.app.examples_of", None)
    for _ in range(2):
        said = json.loads(call(served, "/examples", "lookup")[2])
        assert (said["shape"], said["labels"]) == ([1, 8, 8], [0, 1])
        assert base64.b64decode(said["x"][1]) == image(-3.0).tobytes()


def test_answers_that_are_made_count_as_bodies_do(serving, image):
    from anisocert.service.limits import Limits

    served = serving(limits=Limits(bodies_bytes=20_000))
    raw = {"parameters": {"binary_data": True}}
    x = np.stack([image(3.0)] * 8)  # a body of some 5,000 bytes
    for more, status in (([], 200), ([{"name": "region"} | raw], 200), ([{"name": "region"}, {"name": "theta"}], 503)):
        assert call(served, INFER, "client", asked(x, outputs=more))[0] == status
    assert call(served, INFER, "client", asked(x))[0] == 200


@pytest.mark.parametrize("value", ["", "Bearer", "Basic YTpi", "Bearer a b", "Bearer \xff", "Bearer " + "x" * 5000])
def test_other_authorizations_are_none(serving, value):
    served = serving()
    assert call(served, "/memory", Authorization=value)[0] == 401


def test_others_promises_are_told_by_class_alone(serving, image):
    served = serving(names=None)
    mine, near = image(3.0), image(3.0) + np.float32(0.01)
    more = [
        {"name": name}
        for name in ("prediction", "radius", "proxy_radius", "note", "region", "theta", "evidence", "sentence")
    ]
    own = outputs(call(served, INFER, "client", asked(mine[None], outputs=more))[2])
    promise = served.service.system.memory.lookup(mine)
    assert min(own["radius"][0], own["proxy_radius"][0], *own["region"], *own["theta"]) > 0
    assert json.loads(own["evidence"][0])["id"] == str(promise.id)
    other = call(served, INFER, "client", asked(near[None], outputs=more))[2]
    told = outputs(other)
    assert (told["prediction"], told["note"]) == ([0], ["inherited"])
    assert not any((*told["radius"], *told["proxy_radius"], *told["region"], *told["theta"]))
    assert set(json.loads(told["evidence"][0])) == {"told", "note", "norm", "model_hash"}
    assert str(promise.id).encode() not in other
    assert str(promise.seed).encode() not in other
    assert "this key is told nothing else" in told["sentence"][0]
    trusted = outputs(call(served, INFER, "all", asked(near[None], outputs=more))[2])
    inside = served.service.system.memory.lookup(near)
    assert trusted["radius"] == [inside.radius]
    np.testing.assert_array_equal(np.array(trusted["region"]).reshape(near.shape), inside.region.axes)
    assert json.loads(trusted["evidence"][0])["id"] == str(promise.id)


@pytest.mark.parametrize("policy", ["abstain", "worst-case"])
def test_no_reason_names_another_input(serving, system, image, policy):
    """Promises to one class, then its neighbour's own votes for the other: the memory's reason names the promise."""
    deployed = system(memory=ac.Memory(policy), method=ac.Fixed())
    served = serving(deployed)
    call(served, INFER, "client", asked(image(0.6)[None]))
    (promise,) = deployed.memory.entries()
    deployed.smoothing = ac.Gaussian(0.5)
    more = [{"name": "evidence"}, {"name": "sentence"}, {"name": "note"}]
    for height in np.linspace(-0.5, 0.3, 9):
        body = call(served, INFER, "client", asked(image(height)[None], outputs=more))[2]
        assert str(promise.id).encode() not in body


def test_the_network_failing_is_told_without_its_words(serving, system, half_space, image):
    class Fragile(type(half_space([1.0] * 64))):
        def forward(self, x: Tensor) -> Tensor:
            if (x > 5000).any():
                raise IndexError("/secret/path 6000.0")
            return super().forward(x)

    served = serving(system(Fragile([1.0] * 64).eval(), model_id="fragile"))
    bad = np.full((1, 1, 8, 8), 6000, np.float32)
    more = [{"name": "evidence"}, {"name": "sentence"}]
    for x, status in ((bad, 503), (np.concatenate([bad + 1, image(3.0)[None]]), 200), (bad, 200)):
        found, headers, body = call(served, INFER, "client", asked(x, outputs=more))
        assert found == status
        assert b"secret" not in body
        assert b"IndexError" not in body
        assert (headers["Retry-After"] is not None) == (status == 503)
    assert call(served, "/v2/health/ready")[0] == 200


def test_promises_of_another_network_are_not_told_as_ones_own(serving, system, half_space, image, tmp_path):
    """One that began with the memory after this service had started, where it was empty."""
    with ac.Memory.open(tmp_path / "m.sqlite") as memory, ac.Memory.open(tmp_path / "m.sqlite") as same:
        served = serving(system(memory=memory))
        assert system(half_space([-1.0] * 64).eval(), memory=same).answer(image(1.0)).prediction == 1
        for parameters in ({}, {"lookup": True}):
            found, _, body = call(served, INFER, "all", asked(image(0.9)[None], parameters=parameters))
            assert (found, b"operator has restarted it" in body) == (503, True)


def test_scores_that_are_no_numbers(serving, system, half_space):
    class Nan(type(half_space([1.0] * 64))):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (float("nan") if (x > 5000).any() else 1.0)

    served = serving(system(Nan([1.0] * 64).eval(), model_id="nan"))
    assert call(served, INFER, "client", asked(np.full((1, 1, 8, 8), 6000, np.float32)))[0] == 422


def test_bodies_are_bounded_before_they_are_read(serving, monkeypatch):
    read = []
    monkeypatch.setattr("anisocert.service.app.read_question", lambda *given: read.append(given))
    from anisocert.service import add_key
    from anisocert.service.limits import Limits

    served = serving(limits=Limits(body_bytes=50_000))
    served.tokens["small"] = add_key(served.keys, "small", most_bytes=1000)
    for who, size in (("small", 1001), ("client", 50_001)):
        assert call(served, INFER, who, b"x" * size)[0] == 413
    host = served.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)

    def endless():
        for _ in range(10_000):
            yield b"x" * 1000

    try:
        connection.request(
            "POST", INFER, endless(), {"Authorization": f"Bearer {served.tokens['client']}"}, encode_chunked=True
        )
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server did not wait for the rest
    assert not read
    assert call(served, "/v2/health/live")[0] == 200


def test_a_body_that_never_comes(serving):
    from anisocert.service.limits import Limits

    served = serving(limits=Limits(body_seconds=0.2))
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=20)
    connection.putrequest("POST", INFER)
    connection.putheader("Authorization", f"Bearer {served.tokens['client']}")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"{")
    assert connection.getresponse().status == 408


def test_rates_per_key(serving, image):
    from anisocert.service import add_key

    served = serving()
    served.tokens["slow"] = add_key(served.keys, "slow", per_minute=3)
    x = np.stack([image(3.0)] * 2)
    assert call(served, INFER, "slow", asked(x))[0] == 200
    status, headers, _ = call(served, INFER, "slow", asked(x))
    assert (status, headers["Retry-After"]) == (429, "20")
    assert call(served, INFER, "client", asked(x))[0] == 200
    assert call(served, INFER, "slow", asked(np.stack([image(3.0)] * 4)))[0] == 413
    served.tokens["slower"] = add_key(served.keys, "slower", per_minute=1)
    for status in (400, 429):  # also nonsense counts
        assert call(served, INFER, "slower", b"nonsense")[0] == status


def test_a_plan_within_the_servers(serving, system, image):
    served = serving(system(plan=ac.Plan(n=300, alpha=0.01)))
    more = {"outputs": [{"name": "evidence"}]}
    for smaller in ({"n": 299}, {"alpha": 0.009}, {"n": 300, "alpha": 0.01}):  # needs a right
        assert call(served, INFER, "client", asked(image(-3.0)[None], parameters=smaller))[0] == 403
    said = call(served, INFER, "all", asked(image(3.0)[None], parameters={"n": 100, "alpha": 0.001}, **more))[2]
    evidence = json.loads(outputs(said)["evidence"][0])
    assert (evidence["votes"], evidence["alpha"]) == (100, 0.001)
    for wrong in ({"n": 301}, {"alpha": 0.011}, {"n": 3}, {"n": 100, "alpha": 1e-300}):
        assert call(served, INFER, "all", asked(image(-3.0)[None], parameters=wrong))[0] == 400
    assert served.service.system.memory.attempts(image(-3.0)) == 0


def test_one_alpha_for_a_lifetime_is_the_memorys(serving, system, image):
    served = serving(system(memory=ac.Memory(lifetime=0.01)))
    assert call(served, INFER, "all", asked(image(3.0)[None], parameters={"alpha": 0.001}))[0] == 400
    assert call(served, INFER, "all", asked(image(3.0)[None], parameters={"n": 150}))[0] == 200
    assert served.service.system.memory.check().ok


def test_shapes_and_domain(serving, image):
    served = serving(domain=(-1.0, 1.0))
    assert call(served, INFER, "client", asked(np.zeros((1, 63), np.float32)))[0] == 400
    assert call(served, INFER, "client", asked(image(80.0)[None]))[0] == 400
    assert call(served, INFER, "client", asked(image(3.0)[None]))[0] == 200
    status, _, body = call(served, INFER, "client", asked(np.zeros((1, 64), np.float32)))
    assert (status, json.loads(body)["error"]) == (400, "expected inputs of shape [1, 8, 8], got [64]")


def test_late_answers_keep_their_promise(serving, system, half_space, image):
    gate, armed = threading.Event(), []

    class Gated(type(half_space([1.0] * 64))):
        def forward(self, x: Tensor) -> Tensor:
            if armed:
                gate.wait(20)
            return super().forward(x)

    deployed = system(Gated([1.0] * 64).eval(), model_id="gated", memory=ac.Memory(lifetime=0.01))
    served, x = serving(deployed), image(3.0)
    armed.append(True)
    for one in (x, image(3.0, 9)):  # the second waits behind the first, and is taken back
        status, headers, body = call(served, INFER, "client", asked(one[None], parameters={"timeout": 50_000}))
        assert (status, headers["Retry-After"]) == (504, "1")
        assert "what is promised stays: ask again later" in json.loads(body)["error"]
    gate.set()
    for _ in range(200):
        status, _, body = call(served, INFER, "lookup", asked(x[None], parameters={"lookup": True}))
        if outputs(body)["prediction"] == [0]:
            break
        time.sleep(0.02)
    assert outputs(body)["note"] == ["inherited"]
    assert deployed.memory.stats().numbers == 1
    assert deployed.memory.check().ok


def test_concurrent_requests_share_batches_and_never_disagree(serving, image):
    served, clients, said = serving(), 8, defaultdict[int, set](set)
    points = [image(height, 1) for height in np.linspace(-1.6, 1.6, 16)]  # regions of both classes compete for room

    def ask(who: int) -> None:
        client = served.client("client")
        for i in np.random.default_rng(who).permutation(len(points)):
            said[int(i)].add(int(client.answer(points[i][None]).prediction[0]))

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(ask, range(clients)))
    memory = served.service.system.memory
    promised = [memory.lookup(point) for point in points]
    for i, one in enumerate(promised):  # an abstention is no promise, and may become an answer
        assert said[i] - {-1} == (set() if one is None else {one.prediction})
    assert {one.prediction for one in promised if one} == {0, 1}
    assert memory.submissions <= len(points)
    assert memory.check().ok
    text = call(served, "/metrics", "operate")[2].decode()
    batches = float(re.search(r"anisocert_batch_inputs_count (\S+)", text)[1])
    assert 1 <= batches < len(points) * clients


def test_metrics_and_the_operators_view(serving, image):
    served = serving()
    call(served, INFER, "client", asked(np.stack([image(3.0), image(0.0)])))
    call(served, INFER, "client", asked(image(3.0)[None]))
    call(served, INFER, "client", b"nonsense")
    text = call(served, "/metrics", "operate")[2].decode()
    for line in (
        'anisocert_answers_total{note="kept"} 1.0', 'anisocert_answers_total{note="abstained"} 1.0',
        'anisocert_answers_total{note="inherited"} 1.0', 'anisocert_requests_total{route="infer",status="200"} 2.0',
        'anisocert_requests_total{route="infer",status="400"} 1.0',
        'anisocert_request_seconds_count{route="infer"} 3.0',
        "anisocert_memory_entries 1.0", "anisocert_memory_submissions 2.0", "anisocert_memory_alpha_spent 0.002",
        "anisocert_inputs_waiting 0.0", "anisocert_batch_inputs_sum 2.0",
    ):  # fmt: skip
        assert line in text, line
    state = json.loads(call(served, "/memory", "operate")[2])
    assert (state["entries"], state["submissions"], state["policy"], state["n"]) == (1, 2, "inherit", 200)
    assert state["alphas"] == pytest.approx(0.002)


def test_logs_say_what_happened_and_neither_keys_nor_inputs(serving, caplog):
    from anisocert.service._logging import JsonLines

    caplog.set_level(logging.INFO, "anisocert.service")
    served, x = serving(), np.full((1, 1, 8, 8), 0.625, np.float32)
    call(served, INFER, "client", asked(x, id="client-text"))
    call(served, "/v2/models/made-up-path/infer", "client", asked(x))
    call(served, INFER, "client", b"not json 0.625")
    for _ in range(500):  # a line is written after its answer
        if len(caplog.records) == 3:
            break
        time.sleep(0.01)
    lines = [JsonLines().format(record) for record in caplog.records]
    requests = [json.loads(line) for line in lines]
    assert [(one["route"], one["status"]) for one in requests] == [("infer", 200), ("infer", 404), ("infer", 400)]
    assert (requests[0]["key"], requests[0]["inputs"]) == ("client", 1)
    whole = "\n".join(lines)
    for never in ("0.625", "client-text", "made-up", "not json", *served.tokens.values()):
        assert never not in whole
    try:
        raise ValueError("input 0.625")
    except ValueError as error:
        record = logging.LogRecord("a", logging.ERROR, "f", 1, "failed", (), (type(error), error, error.__traceback__))
    assert "0.625" not in JsonLines().format(record)
    assert json.loads(JsonLines().format(record))["error"] == "ValueError"


def test_an_error_of_our_own_is_told_to_nobody(serving, image, monkeypatch):
    served = serving()

    def broken(*_):
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(served.service, "tell", broken)
    status, _, body = call(served, INFER, "client", asked(image(3.0)[None]))
    assert status == 500
    assert json.loads(body) == {"error": "the service failed: its log says more"}


def test_what_is_no_page_or_method(serving):
    served = serving()
    for path, method, status in (
        ("/v3", None, 404),
        (INFER, "GET", 405),
        ("/v2", "DELETE", 405),
        ("/../etc/passwd", None, 404),
    ):
        found, _, body = call(served, path, method=method)
        assert found == status
        assert list(json.loads(body)) == ["error"]
    assert call(served, INFER, "client", b"\x1f\x8b", **{"Content-Encoding": "gzip"})[0] == 415


def test_headers_keep_browsers_careful(serving):
    served = serving()
    for path in ("/", "/docs", "/v2", "/nothing"):
        _, headers, _ = call(served, path)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "server" not in headers
    policy = call(served, "/")[1]["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_openapi_describes_every_route(serving):
    served = serving()
    said = json.loads(call(served, "/openapi.json")[2])
    routes = {
        (route.path, method.lower()) for route in served.server.config.app.inner.routes for method in route.methods
    }
    assert {(path, method) for path, one in said["paths"].items() for method in one if method in ("get", "post")} == {
        one for one in routes if one[1] != "head"
    }
    assert set(said["paths"]["/v2/models/{name}/infer"]["post"]["responses"]) == {"200", *ERRORS}
    page = call(served, "/docs")[2].decode()
    assert all(path in page for path in said["paths"])


def test_a_service_that_ends_finishes_what_was_begun(serving, system, half_space, image, run):
    begun, armed = threading.Event(), []

    class Slow(type(half_space([1.0] * 64))):
        def forward(self, x: Tensor) -> Tensor:
            if armed:
                begun.set()
                time.sleep(0.05)
            return super().forward(x)

    served = serving(system(Slow([1.0] * 64).eval(), model_id="slow"))
    armed.append(True)
    said = []
    asking = threading.Thread(target=lambda: said.append(served.client("client").answer(image(3.0)[None])))
    asking.start()
    assert begun.wait(20)
    for _ in range(2):  # somebody impatient
        served.server.handle_exit(signal.SIGINT, None)
    asking.join(20)
    assert said[0].note == ["kept"]
    for _ in range(500):
        if not served.service.queue.alive:
            break
        time.sleep(0.01)
    assert not run(served.service.ready())
    with pytest.raises(ServiceError, match=r"gave no answer|closed the connection"):
        served.client("client").answer(image(-3.0)[None])


def test_keys_that_cannot_be_read_give_nobody_a_right(serving):
    served = serving()
    for damage in (lambda: served.keys.write_text("{"), served.keys.unlink):
        damage()
        status, _, body = call(served, "/memory", "all")
        assert (status, json.loads(body)) == (503, {"error": "the keys of this service cannot be read"})


def test_another_process_that_began_with_another_shape(serving, system, image, tmp_path):
    with ac.Memory.open(tmp_path / "m.sqlite") as memory, ac.Memory.open(tmp_path / "m.sqlite") as same:
        served = serving(system(memory=memory), shape=(64,))
        system(memory=same).answer(image(3.0))
        for lookup in (True, False):
            body = asked(image(3.0).reshape(1, 64), parameters={"lookup": lookup})
            assert call(served, INFER, "all", body)[0] == 400


def _damaged(memory, path):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE head SET entries = 3")


@pytest.mark.parametrize(
    ("fail", "said"),
    [(_damaged, "the memory is damaged"), (lambda memory, _: memory.close(), "the network or the memory failed")],
    ids=["damaged", "closed"],
)
def test_a_memory_that_fails_is_not_ready(serving, system, image, tmp_path, fail, said):
    memory = ac.Memory.open(tmp_path / "m.sqlite")
    served = serving(system(memory=memory))
    fail(memory, tmp_path / "m.sqlite")
    assert call(served, "/v2/health/live")[0] == 200
    assert call(served, "/v2/health/ready")[0] == 503
    for parameters in ({}, {"lookup": True}):
        status, headers, body = call(served, INFER, "all", asked(image(3.0)[None], parameters=parameters))
        assert (status, headers["Retry-After"]) == (503, "5")
        assert json.loads(body)["error"].startswith(said)
    assert call(served, "/memory", "all")[0] == 503
    status, _, text = call(served, "/metrics", "all")
    assert status == 200
    assert b'anisocert_failures_total{kind="memory"} 4.0' in text
    assert b"anisocert_memory_entries" not in text


def test_a_memory_that_was_moved(serving, system, image, tmp_path):
    with ac.Memory.open(tmp_path / "m.sqlite") as memory:
        served = serving(system(memory=memory))
        served.client().answer(image(3.0)[None])
        migrate(tmp_path / "m.sqlite", tmp_path / "new.sqlite")
        for lookup in (True, False):
            with pytest.raises(ServiceError, match="503: the memory was moved or changed"):
                served.client().answer(image(3.0)[None], lookup=lookup)
        assert not served.client().ready()


def test_values_beyond_what_noise_can_be_added_to_spend_nothing(serving, image):
    served, large = serving(), image(3.0)
    large[0, 0, 0] = 3.4e38
    with pytest.raises(ServiceError, match=r"400: expected values from -131072 to 131072, got others$"):
        served.client().answer(large[None])
    assert served.service.system.memory.attempts(large) == 0


def test_bodies_under_way_share_a_budget(serving, image):
    from anisocert.service.limits import Limits

    served, x = serving(limits=Limits(bodies_bytes=3000)), np.stack([image(3.0)] * 16)
    for _ in range(3):  # each gives back what it took
        assert served.client().answer(x[:4], lookup=True).note == ["none"] * 4
        with pytest.raises(ServiceError, match="503: requests under way hold as many bytes as they may") as refused:
            served.client().answer(x, lookup=True)
        assert refused.value.retry_after == 1


def test_no_key_keeps_others_out_by_bodies_that_never_end(serving, image):
    from anisocert.service.limits import Limits

    served, x = serving(limits=Limits(bodies_bytes=20_000)), image(3.0)[None]
    with contextlib.ExitStack() as held:
        for _ in range(20):
            one = held.enter_context(contextlib.closing(http.client.HTTPConnection(served.url.removeprefix("http://"))))
            one.putrequest("POST", INFER)
            one.putheader("Authorization", f"Bearer {served.tokens['client']}")
            one.putheader("Content-Length", "1000000")
            one.endheaders(b" " * 990)
        for _ in range(100):
            if call(served, INFER, "client", asked(x))[0] == 503:  # once those bodies have been read
                break
        else:
            pytest.fail("one key held more than half")
        assert call(served, INFER, "all", asked(x))[0] == 200


def test_nobody_is_sent_where_a_client_says(serving):
    status, headers, _ = call(serving(), "/v2/", Host="elsewhere.example")
    assert (status, headers["Location"]) == (404, None)


def test_no_time_to_wait_is_the_services_own(serving, image):
    status, _, _ = call(serving(), INFER, "client", asked(image(3.0)[None], parameters={"timeout": 0}))
    assert status == 200


def test_paths_of_this_machine_are_in_no_answer(serving):
    served = serving()
    here = [str(Path.home()).encode(), str(served.keys.parent).encode()]
    for path in ("/", "/docs", "/openapi.json", "/v2", "/v2/models/plane", "/memory", "/metrics", "/examples"):
        body = call(served, path, "all")[2]
        assert not any(one in body for one in here if len(one) > 5)
