"""Our client and a stock one get the answers of the system, as it would give them in this process."""

import json
import multiprocessing
import os
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from anisocert.errors import ArgumentError
from anisocert.service import Client, ServiceError


def test_arrays_in_and_out(serving, image):
    served = serving()
    client, x = served.client(), np.stack([image(3.0), image(-3.0), image(0.0)])
    assert client.ready()
    assert client.model == "plane"
    assert client.metadata()["inputs"][0]["shape"] == [-1, 1, 8, 8]
    found = client.answer(x, more=("region", "theta", "evidence", "sentence"))
    promises = list(served.service.system.memory.entries())
    np.testing.assert_array_equal(found.prediction, [0, 1, -1])
    np.testing.assert_array_equal(found.radius[:2], [one.radius for one in promises])
    assert found.note == ["kept", "kept", "abstained"]
    assert found.more["region"].shape == x.shape
    np.testing.assert_array_equal(found.more["region"][0], promises[0].region.axes)
    assert (found.more["theta"] == np.float32(0.5)).all()
    assert [json.loads(one)["id"] for one in found.more["evidence"]][:2] == [str(one.id) for one in promises]
    assert "after every change of l2 length up to" in found.more["sentence"][0]
    assert "is promised from admission on" in found.more["sentence"][0]
    assert found.more["sentence"][2].startswith("Nothing is promised about this input: not proven the most likely")
    assert client.answer(x, lookup=True).note == ["inherited", "inherited", "none"]
    assert client.memory()["entries"] == 2


def test_errors_say_what_and_when_to_come_again(serving, image):
    served = serving()
    with pytest.raises(ServiceError, match="403: expected a key with the right admit") as refused:
        served.client("lookup").answer(image(3.0)[None])
    assert (refused.value.status, refused.value.retry_after) == (403, None)
    for wrong, got in (("anisocert_wrong", "another"), ("", "none")):
        with pytest.raises(ServiceError, match=f"401: expected the header .*, got {got}$"):
            Client(served.url, wrong, model="plane").answer(image(3.0)[None])
    with pytest.raises(ServiceError, match="504: the answer was not ready in time") as refused:
        served.client().answer(image(3.0)[None], seconds=1e-6)
    assert refused.value.retry_after == 1
    with pytest.raises(ServiceError, match=r"got \[8, 8\]: if x is a single input, pass x\[None\]$"):
        served.client().answer(image(3.0))
    with pytest.raises(ArgumentError, match="float32 holds exactly"):
        served.client().answer(np.full((1, 1, 8, 8), 0.1))
    with pytest.raises(ServiceError, match="gave no answer"):
        Client("http://127.0.0.1:9", "a", model="b").answer(image(3.0)[None])
    assert not Client("http://127.0.0.1:9", "a").ready()
    with pytest.raises(ArgumentError, match="expected url as in"):
        Client("127.0.0.1:8000", "a")


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:port", "http://[::1", 5])
def test_a_url_that_is_none_is_refused_before_anything_is_asked(url):
    with pytest.raises(ArgumentError, match="expected url as in http://127"):
        Client(url, "a")


@pytest.mark.parametrize("key", ["anisocert_right\n", "anisocert_\N{SNOWMAN}", b"anisocert_right", None])
def test_a_key_that_no_header_can_carry_is_refused_and_not_told(key):
    with pytest.raises(ArgumentError, match=r"pass key\.strip\(\)$") as refused:
        Client("http://127.0.0.1:9", key)
    assert "right" not in str(refused.value)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "a", 1e30])
def test_seconds_that_nobody_can_wait_are_refused(image, seconds):
    with pytest.raises(ArgumentError, match="expected seconds to wait, a number > 0, at most 1,000,000, got "):
        Client("http://127.0.0.1:9", "a", seconds=seconds)
    with pytest.raises(ArgumentError, match="expected seconds to wait"):
        Client("http://127.0.0.1:9", "a", model="b").answer(image(3.0)[None], seconds=seconds)


def test_numbers_of_numpy_are_numbers(serving, image):
    given = {"n": np.int64(100), "alpha": np.float32(2**-11), "lookup": np.bool_(False)}
    assert serving().client().answer(image(3.0)[None], **given).prediction == 0


def told(body, head=(), status=200):
    """An answer of HTTP, as anybody may give it."""
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Connection: close", *head]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def outputs(**one):
    return json.dumps({"outputs": [one]}).encode()


NOTE = outputs(name="note", datatype="BYTES", shape=[1], parameters={"binary_data_size": 3})
VAST = outputs(name="radius", datatype="FP64", shape=[0, 10**400], parameters={"binary_data_size": 0})
OTHERS = (
    (told(b"<html>Sign in</html>"), 200, None),
    (told(b"{}"), 200, None),
    (told(b"[1]"), 200, None),
    (told(b"\xff"), 200, None),
    (told(b"[" * 100_000), 200, None),
    (told(b'{"outputs": [], "models": []}'), 200, None),
    (told(b'{"outputs": 3, "models": 3}'), 200, None),
    (told(outputs(name="note")), 200, None),
    (told(NOTE + b"abc", [f"Inference-Header-Content-Length: {len(NOTE)}"]), 200, None),
    (told(VAST, [f"Inference-Header-Content-Length: {len(VAST)}"]), 200, None),
    (told(b"{}", ["Retry-After: 7"], 503), 503, 7),
    (told(b"{}", ["Retry-After: " + "9" * 5000], 503), 503, None),
    (told(b'["error"]', ["Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"], 503), 503, None),
    (told(b"[" * 100_000, [], 502), 502, None),
)


def test_what_another_answers_is_an_error_of_the_service(image):
    """A proxy's page, in place of the answer and of the model's name."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def answer(said):
            with listening.accept()[0] as asker:
                asker.sendall(said)
                asker.shutdown(socket.SHUT_WR)
                while asker.recv(1 << 16):
                    pass

        for said, status, after in OTHERS:
            for ask in (lambda: Client(url, "a", model="b").answer(image(3.0)[None]), lambda: Client(url, "a").model):
                answered = pool.submit(answer, said)
                with pytest.raises(ServiceError) as refused:
                    ask()
                answered.result()
                assert (refused.value.status, refused.value.retry_after) == (status, after), said[:200]
                assert ("expected an answer of the service, got another" in str(refused.value)) == (status == 200)


def test_a_question_is_sent_again_only_where_a_connection_has_served(image):
    """Else one that a server has read, and not answered, would be asked twice: votes are drawn for each."""
    asked, ready = [], b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    def serve(listening, answers):
        for answer in answers:
            with listening.accept()[0] as asker:
                asked.append(asker.recv(1 << 16).split(b" ")[0])
                asker.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        served = pool.submit(serve, listening, [b""])
        with pytest.raises(ServiceError, match="closed the connection without an answer"):
            Client(url, "a", model="b").answer(image(3.0)[None])
        served.result()
        served, client = pool.submit(serve, listening, [ready, ready]), Client(url, "a")
        assert client.ready()
        assert client.ready()  # on another connection, as the first one was closed
        served.result()
    assert asked == [b"POST", b"GET", b"GET"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked")
def test_a_forked_process_does_not_share_the_connection():
    ports = set()

    class Ready(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            ports.add(self.client_address[1])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Ready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}", "a")
        assert client.ready()
        child = multiprocessing.get_context("fork").Process(target=client.ready)
        child.start()
        child.join()
        assert client.ready()
        server.shutdown()
    assert len(ports) == 2


def test_over_tls(serving, image, pair):
    certificate, key = pair()
    served = serving(tls=(certificate, key))
    assert served.client(context=ssl.create_default_context(cafile=certificate)).answer(image(3.0)[None]).note == [
        "kept"
    ]
    with pytest.raises(ServiceError, match="certificate verify failed"):
        served.client(model="plane").answer(image(3.0)[None])


@pytest.mark.parametrize("binary", [True, False])
def test_a_stock_client_of_the_protocol(serving, image, binary):
    triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient: pip install 'tritonclient[http]'")
    served = serving()
    x = np.stack([image(3.0), image(-3.0)])
    headers = {"Authorization": f"Bearer {served.tokens['client']}"}
    with triton.InferenceServerClient(served.url.removeprefix("http://")) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("plane")
        assert client.is_model_ready("plane", served.service.version)
        assert client.get_server_metadata()["name"] == "anisocert"
        assert client.get_model_metadata("plane")["versions"] == [served.service.version]
        given = triton.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x, binary_data=binary)
        wanted = [
            triton.InferRequestedOutput(name, binary_data=binary) for name in ("prediction", "radius", "note", "region")
        ]
        found = client.infer("plane", [given], outputs=wanted, headers=headers, request_id="7", timeout=20_000_000)
        promises = list(served.service.system.memory.entries())
        np.testing.assert_array_equal(found.as_numpy("prediction"), [0, 1])
        np.testing.assert_array_equal(found.as_numpy("radius"), [one.radius for one in promises])
        np.testing.assert_array_equal(found.as_numpy("region"), [one.region.axes for one in promises])
        assert [str(one, "utf-8") if isinstance(one, bytes) else one for one in found.as_numpy("note")] == ["kept"] * 2
        assert found.get_response()["id"] == "7"
        usual = client.infer("plane", [given], headers=headers, parameters={"lookup": True})
        assert usual.as_numpy("proxy_radius").dtype == np.float64
        with pytest.raises(
            triton.InferenceServerException if hasattr(triton, "InferenceServerException") else Exception
        ):
            client.infer("plane", [given])
