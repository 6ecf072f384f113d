"""A memory that does not answer: requests end in time, and so does the service."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import anisocert as ac
from anisocert.service import ServiceError
from anisocert.service.limits import Limits


class Hanging(ac.Memory):
    """Answers nobody while it is armed."""

    def __init__(self):
        super().__init__()
        self.armed, self.end = False, threading.Event()

    def _hang(self):
        assert not self.armed or self.end.wait(30)

    def lookup_all(self, x):
        self._hang()
        return super().lookup_all(x)

    def admit_all(self, *given):
        self._hang()
        return super().admit_all(*given)

    def stats(self):
        self._hang()
        return super().stats()

    def __len__(self):
        self._hang()
        return super().__len__()


@pytest.fixture
def hanging():
    memory = Hanging()
    yield memory
    memory.end.set()


def answered(client, x):
    """Whether it is, if asked again as long as answers come too late."""
    for _ in range(100):
        try:
            return client.answer(x).prediction[0] >= 0
        except ServiceError as late:
            if late.status != 504:
                raise
    return False


def test_every_request_ends_in_time(serving, system, image, hanging):
    served = serving(system(memory=hanging), limits=Limits(seconds=0.3))
    hanging.armed, started = True, time.monotonic()

    def status(lookup):
        with pytest.raises(ServiceError) as late:
            served.client().answer(image(3.0)[None], lookup=lookup)
        return late.value.status

    with ThreadPoolExecutor(20) as pool:  # more than there are threads to ask
        assert set(pool.map(status, [True, False] * 10)) == {504}
    assert not served.client().ready()
    with pytest.raises(ServiceError, match="503: the memory does not answer in time"):
        served.client().memory()
    assert time.monotonic() - started < 10
    hanging.end.set()
    assert answered(served.client(), image(3.0)[None])
    assert served.client().ready()


def test_a_shorter_time_than_the_services_holds_for_lookups(serving, system, image, hanging):
    served = serving(system(memory=hanging))
    hanging.armed = True
    with pytest.raises(ServiceError, match="504: the answer was not ready in time"):
        served.client().answer(image(3.0)[None], lookup=True, seconds=0.1)


def test_a_service_ends_without_a_memory_that_does_not_answer(serving, system, image, hanging, monkeypatch, run):
    service = serving(system(memory=hanging), limits=Limits(seconds=0.2)).service
    for name in ("LAST", "PATIENCE"):
        monkeypatch.setitem(type(service).close.__globals__, name, 0.1)
    hanging.armed = True
    asked = service.queue.ask(image(3.0)[None], service.system.plan)
    started = time.monotonic()
    assert service.close() is False
    assert service.close() is False  # it has told already
    assert time.monotonic() - started < 5
    assert not asked.done()
    assert not run(service.ready())


def test_votes_that_take_longer_than_that_are_counted(serving, system, half_space, image, monkeypatch):
    begun, gate = threading.Event(), threading.Event()

    class Gated(type(half_space([1.0] * 64))):
        def forward(self, x):
            if armed:
                begun.set()
                assert gate.wait(30)
            return super().forward(x)

    armed = []
    service = serving(system(Gated([1.0] * 64).eval(), model_id="gated")).service
    monkeypatch.setitem(type(service).close.__globals__, "LAST", 0.02)
    armed.append(True)
    asked = service.queue.ask(image(3.0)[None], service.system.plan)
    assert begun.wait(30)
    threading.Timer(0.3, gate.set).start()
    assert service.close() is True
    assert asked.result(0)[0].note == "kept"
