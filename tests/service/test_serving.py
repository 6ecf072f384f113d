"""Where a service listens, as people are told."""

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install '.[serve]'")
pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")
from anisocert.service.serving import Address


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:81/"), ("::1", "http://[::1]:81/"), ("localhost", "http://localhost:81/")],
)
def test_an_address_can_be_typed_as_it_is_told(host, url, tmp_path):
    assert Address(host, 81).url(81) == url
    assert Address(host, 0, tmp_path, tmp_path).url(81) == url.replace("http", "https")
