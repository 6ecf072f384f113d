"""Lookups that come together: one transaction, the same answers, and nobody's mistake is another's."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from anisocert.errors import ArgumentError
from anisocert.memory import Memory, UnavailableError
from anisocert.service._lookups import Lookups


class Slow(Memory):
    """One that counts the times it is asked, the first of which lasts until it is told to end."""

    away = False

    def __init__(self):
        super().__init__()
        self.times, self.asked, self.begun, self.end = 0, 0, threading.Event(), threading.Event()

    def lookup_all(self, x):
        self.times, self.asked = self.times + 1, self.asked + len(x)
        self.begun.set()
        assert self.end.wait(30)
        if self.away:
            raise UnavailableError("the database is down")
        return super().lookup_all(x)


@pytest.fixture
def slow(system, image):
    memory = Slow()
    memory.end.set()
    assert {one.note for one in system(memory=memory).answers(np.stack([image(1), image(-1)]))} == {"kept"}
    memory.times = memory.asked = 0
    memory.begun.clear()
    memory.end.clear()
    return memory


def test_those_who_wait_are_answered_together(slow, image):
    lookups = Lookups(slow)
    first = lookups.ask(image(0.9)[None])
    assert slow.begun.wait(30)
    others = [lookups.ask(np.stack([image(1), image(-1.1)])[: i % 2 + 1]) for i in range(6)]
    left = lookups.ask(image(1)[None])
    assert left.cancel()
    slow.end.set()
    assert [one.prediction for one in first.result(30)] == [0]
    assert [[one.prediction for one in other.result(30)] for other in others] == [[0], [0, 1]] * 3
    assert (slow.times, slow.asked) == (2, 1 + 9)
    lookups.close()


def test_who_came_first_does_not_wait_for_all_others(slow, image):
    lookups = Lookups(slow, at_once=4)
    asked = [lookups.ask(image(1)[None]) for _ in range(9)]
    assert slow.begun.wait(30)
    slow.end.set()
    lookups.close()  # after all of them
    assert all(one.result(30)[0].prediction == 0 for one in asked)
    assert slow.times >= 3


def test_a_wrong_shape_concerns_whoever_sent_it(slow, image):
    lookups = Lookups(slow)
    first = lookups.ask(image(1)[None])
    assert slow.begun.wait(30)
    wrong, right = lookups.ask(np.zeros((1, 3), np.float32)), lookups.ask(image(-1)[None])
    slow.end.set()
    with pytest.raises(ArgumentError):
        wrong.result(30)
    assert [first.result(30)[0].prediction, right.result(30)[0].prediction] == [0, 1]
    lookups.close()


def test_a_memory_that_is_away_is_asked_once_for_all(slow, image):
    lookups = Lookups(slow)
    first = lookups.ask(image(1)[None])
    assert slow.begun.wait(30)
    others = [lookups.ask(image(1)[None]) for _ in range(6)]
    slow.away = True
    slow.end.set()
    for one in (first, *others):
        with pytest.raises(UnavailableError):
            one.result(30)
    assert slow.times == 2
    lookups.close()


def test_an_answer_knows_what_was_promised_before_its_question(system, image):
    """Eight threads look up inputs right after their promises; a shared answer must not be older than that."""
    memory = Memory()
    answering, lookups = system(memory=memory), Lookups(memory)

    def admit_then_look(seed):
        x = image(2, seed)
        answer = answering.answer(x)
        return answer.prediction, lookups.ask(x[None]).result(30)[0]

    with ThreadPoolExecutor(8) as pool:
        for prediction, found in pool.map(admit_then_look, range(40)):
            assert found is not None
            assert found.prediction == prediction
