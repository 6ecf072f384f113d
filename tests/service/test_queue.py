"""Requests share network calls; none is lost, none takes another with it, and too many are refused."""

import threading
import time
from concurrent.futures import wait
from unittest.mock import Mock

import numpy as np
import pytest
from torch import Tensor

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.service import _queue
from anisocert.service._queue import Queue
from anisocert.service.errors import RefusedError

PLAN, OTHER = ac.Plan(n=200), ac.Plan(n=100)


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


@pytest.fixture
def gated(system, half_space, gate):
    """A system whose network waits until it is let through; its batches are in `.asked`."""
    entered = threading.Event()

    class Gated(type(half_space([1.0] * 64))):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 1 and armed:
                entered.set()
                assert gate.wait(20)
            if (x > 5000).any():
                raise IndexError("beyond 5000")
            return super().forward(x)

    class Watched(ac.System):
        def answers(self, x):
            self.asked.append((len(x), self.plan.n))
            return super().answers(x)

    armed = []
    made = system(Gated([1.0] * 64).eval(), model_id="gated")
    made.__class__, made.asked, made.entered = Watched, [], entered
    made.arm = lambda: armed.append(True)
    return made


@pytest.fixture
def queue(gated):
    """queue(...): closed at the end."""
    made = []

    def make(**options):
        made.append(Queue(gated, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_what_gathers_is_asked_together_by_plan(queue, gated, gate, image):
    gated.arm()
    one = queue()
    first = one.ask(image(3.0)[None], PLAN)
    assert gated.entered.wait(20)
    later = [one.ask(image(-3.0, seed)[None], OTHER if seed % 3 == 2 else PLAN) for seed in range(6)]
    pair = one.ask(np.stack([image(3.0, 7), image(-3.0, 8)]), PLAN)
    assert one.waiting == 8
    gate.set()
    wait([first, *later, pair], timeout=20)
    assert gated.asked == [(1, 200), (6, 200), (2, 100)]
    assert first.result()[0].prediction == 0
    assert [done.result()[0].prediction for done in later] == [1] * 6
    assert [c.prediction for c in pair.result()] == [0, 1]
    assert [len(done.result()) for done in (first, *later, pair)] == [1] * 7 + [2]


def test_no_batch_is_larger_than_it_may_be_and_no_request_is_split(queue, gated, gate, image):
    gated.arm()
    one = queue(at_once=3)
    asked = [one.ask(image(3.0)[None], PLAN)]
    assert gated.entered.wait(20)
    asked += [one.ask(np.stack([image(3.0, 10 * i + j) for j in range(k)]), PLAN) for i, k in enumerate((2, 2, 1, 5))]
    gate.set()
    wait(asked, timeout=20)
    assert [size for size, _ in gated.asked] == [1, 3, 2, 5]


def test_too_many_are_refused_and_told_when_to_come_again(queue, gated, gate, image):
    gated.arm()
    one = queue(most_waiting=3)
    first = one.ask(image(3.0)[None], PLAN)
    assert gated.entered.wait(20)
    waiting = [one.ask(image(3.0, seed)[None], PLAN) for seed in range(3)]
    with pytest.raises(RefusedError) as refused:
        one.ask(image(3.0, 9)[None], PLAN)
    assert refused.value.status == 429
    assert refused.value.retry_after >= 1
    with pytest.raises(RefusedError, match="expected at most 3 inputs that are not promised, got 4") as refused:
        one.ask(np.stack([image(3.0, seed) for seed in range(4)]), PLAN)
    assert (refused.value.status, refused.value.retry_after) == (413, None)  # no time would make room for them
    assert waiting[0].cancel()
    again = one.ask(image(3.0, 9)[None], PLAN)  # whoever gave up made room
    gate.set()
    wait([first, again, *waiting[1:]], timeout=20)
    assert again.result()[0].prediction == 0


def test_who_gives_up_before_a_batch_spends_nothing_and_after_that_loses_no_promise(queue, gated, gate, image):
    gated.arm()
    one, early, late = queue(), image(3.0), image(3.0, 1)
    begun = one.ask(early[None], PLAN)
    assert gated.entered.wait(20)
    waiting = one.ask(late[None], PLAN)
    assert waiting.cancel()
    assert not begun.cancel()
    gate.set()
    assert begun.result(20)[0].note == "kept"
    one.close()
    assert gated.memory.attempts(late) == 0
    assert gated.memory.attempts(early) == 1
    assert gated.memory.lookup(early).prediction == 0


@pytest.mark.parametrize("lifetime", [None, 0.01])
def test_an_input_that_fails_takes_no_other_with_it(gated, queue, gate, image, lifetime):
    gated.arm()
    gated.memory = ac.Memory(lifetime=lifetime)
    one, bad = queue(), np.full((1, 1, 8, 8), 6000, np.float32)
    first = one.ask(image(3.0)[None], PLAN)
    assert gated.entered.wait(20)
    asked = [one.ask(x, PLAN) for x in (image(3.0, 1)[None], bad, image(-3.0, 2)[None])]
    gate.set()
    wait([first, *asked], timeout=20)
    assert [done.result()[0].prediction for done in asked] == [0, -1, 1]
    assert gated.memory.check().ok


def test_a_batch_that_fails_is_told_and_the_next_is_served(queue, gate, image):
    gate.set()
    errors = []
    one = queue(on_error=errors.append)
    with pytest.raises(IndexError):
        one.ask(np.full((1, 1, 8, 8), 6000, np.float32), PLAN).result(20)
    assert [type(error) for error in errors] == [IndexError]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_queue.np, "concatenate", fail := Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            one.ask(image(3.0)[None], PLAN).result(20)
    assert fail.called
    assert one.ask(image(3.0)[None], PLAN).result(20)[0].prediction == 0
    both = [one.ask(np.zeros((1, 3), np.float32), PLAN), one.ask(image(-3.0)[None], PLAN)]  # never one batch
    with pytest.raises(ArgumentError, match="expected an input of shape"):
        both[0].result(20)
    assert both[1].result(20)[0].prediction == 1


def test_closing_answers_those_who_wait(queue, gated, gate, image):
    gated.arm()
    one = queue()
    asked = [one.ask(image(3.0)[None], PLAN)]
    assert gated.entered.wait(20)
    asked.append(one.ask(image(-3.0)[None], PLAN))
    closing = threading.Thread(target=one.close)
    closing.start()
    while one.alive:
        pass
    with pytest.raises(RefusedError) as refused:
        one.ask(image(3.0, 5)[None], PLAN)
    assert refused.value.status == 503
    gate.set()
    closing.join(20)
    assert [done.result(0)[0].prediction for done in asked] == [0, 1]


def test_who_asks_again_at_once_goes_with_the_others(queue, gated, image, monkeypatch):
    """Four who ask again and again: the first to come back does not go alone, one who comes alone does not wait."""
    monkeypatch.setattr("anisocert.service._queue.GRACE", 1000.0)
    monkeypatch.setattr("anisocert.service._queue.LONGEST_GRACE", 20.0)
    one, seeds = queue(), iter(range(1000))
    together = one.ask(np.stack([image(3.0, next(seeds)) for _ in range(4)]), PLAN)
    wait([together], timeout=20)
    started = time.monotonic()
    for _ in range(3):
        wait([one.ask(image(3.0, next(seeds))[None], PLAN) for _ in range(4)], timeout=30)
    assert gated.asked == [(4, 200)] * 4
    assert time.monotonic() - started < 15
    few = [one.ask(image(3.0, next(seeds))[None], PLAN) for _ in range(2)]  # the other two have left
    assert not wait(few, timeout=0.3).done
    one.close()  # nobody else can come
    assert all(asked.done() for asked in few)
    assert gated.asked[-1] == (2, 200)


def test_one_who_asks_alone_never_waits(queue, image, monkeypatch):
    monkeypatch.setattr("anisocert.service._queue.GRACE", 1000.0)
    monkeypatch.setattr("anisocert.service._queue.LONGEST_GRACE", 20.0)
    one, started = queue(), time.monotonic()
    for seed in range(5):
        assert one.ask(image(3.0, seed)[None], PLAN).result(10)[0].prediction == 0
    assert time.monotonic() - started < 10
