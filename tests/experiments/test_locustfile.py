"""benchmarks/locustfile.py looks up what was certified; locust itself is not needed."""

import sys
from types import SimpleNamespace

import pytest


@pytest.fixture
def asker(script, monkeypatch):
    """asker(statuses) -> a user of a mixed load whose requests are answered so, and the names of these."""
    monkeypatch.setitem(
        sys.modules, "locust", SimpleNamespace(FastHttpUser=object, task=lambda _: lambda method: method)
    )
    monkeypatch.setenv("ANISOCERT_KEY", "any")
    module = script("locustfile")

    def make(statuses):
        told = {"/v2": {"models": ["m"]}, "/v2/models/m": {"inputs": [{"shape": [-1, 1, 8, 8]}]}}
        user, names, answers = module.Asker(), [], iter(statuses)

        def post(_, body, headers, name):
            names.append(name)
            return SimpleNamespace(status_code=next(answers))

        user.client = SimpleNamespace(get=lambda url: SimpleNamespace(json=lambda: told[url]), post=post)
        user.on_start()
        return user, names

    return make


def test_what_failed_to_be_certified_is_not_looked_up(asker):
    user, names = asker([503, 200, 200])
    for ask in (user.lookup, user.certify, user.lookup, user.certify, user.lookup):
        ask()
    assert names == ["certify", "certify", "lookup"]
    assert len(user.known) == 1
