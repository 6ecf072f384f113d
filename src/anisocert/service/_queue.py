"""Inputs that wait for the network, and the one thread that asks it: all that arrive while it is busy are one batch.

A request that comes alone is served at once. Clients that were just answered often ask again immediately. The next
batch waits for them, for a small part of the time that the last one took: a call for one input may take as long as one
for sixteen.
"""

import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic, perf_counter

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.certificate import Certificate
from anisocert.engine.numerics import one_arena
from anisocert.service.errors import RefusedError
from anisocert.system import System

Answers = list[Certificate]
GRACE, LONGEST_GRACE = 0.1, 0.05  # how long a batch waits for the last one's clients: share of its time, most seconds
SMOOTH = 0.8  # weight of the past in the time per input that Retry-After is computed from


@dataclass(frozen=True, eq=False)
class _Waiting:
    x: NDArray[np.float32]
    plan: Plan
    answers: "Future[Answers]" = field(default_factory=Future)

    @property
    def kind(self) -> tuple[Plan, tuple[int, ...]]:
        """What all requests of a batch have in common."""
        return self.plan, self.x.shape[1:]


class Queue:
    """Answers inputs by a system, in batches, in a thread of its own.

    most_waiting: inputs; more are refused with 429, or 413 if they come in one request. at_once: inputs per batch (a
    request is never split). on_batch is called with the number of inputs and the seconds of each batch, before its
    answers are given out; on_error with what a batch failed with.
    """

    def __init__(
        self,
        system: System,
        most_waiting: int = 256,
        at_once: int = 64,
        on_batch: Callable[[int, float], None] = lambda *_: None,
        on_error: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        self._system, self._most, self._at_once = system, most_waiting, at_once
        self._on_batch, self._on_error = on_batch, on_error
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed, self._busy, self._pace = False, 0, 0.0
        self._expected, self._until = 0, 0.0  # inputs that the next batch waits for, and until when (monotonic)
        one_arena()
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether inputs are taken and answered."""
        return not self._closed and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Inputs that no batch has taken yet."""
        with self._changed:
            return self._count()

    def _count(self) -> int:
        return sum(len(request.x) for request in self._waiting)

    def ask(self, x: NDArray[np.float32], plan: Plan) -> "Future[Answers]":
        """Put inputs in the queue. x: `b x *shape`.

        The future may be cancelled while no batch has taken it: then nothing was drawn and nothing is spent. After
        that the work goes on whoever waits, and what is admitted is promised.
        """
        with self._changed:
            if not self.alive:
                raise RefusedError(503, "the service is shutting down: ask again in a moment", 5)
            if len(x) > self._most:  # they would never find room
                raise RefusedError(413, f"expected at most {self._most} inputs that are not promised, got {len(x)}")
            self._waiting = deque(request for request in self._waiting if not request.answers.cancelled())
            waiting = self._count()
            if waiting + len(x) > self._most:
                wait = max(1, math.ceil(self._pace * (waiting + self._busy)))
                raise RefusedError(
                    429, f"expected at most {self._most} inputs to wait, got more: ask again in {wait} s", wait
                )
            self._waiting.append(request := _Waiting(x, plan))
            self._changed.notify()
            return request.answers

    def close(self, seconds: float | None = None) -> bool:
        """Take no more inputs, answer those that wait, and return when all is done, or after some seconds: whether."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while batch := self._next():
            count, started = sum(len(request.x) for request in batch), perf_counter()
            try:
                x = np.concatenate([request.x for request in batch])  # for which there may be no memory
                answers = self._system.with_plan(batch[0].plan).answers(x)
            except BaseException as error:
                self._on_error(error)
                for request in batch:
                    request.answers.set_exception(error)
                continue
            finally:
                seconds = perf_counter() - started
                self._pace = SMOOTH * self._pace + (1 - SMOOTH) * seconds / count
                self._busy = 0
            self._on_batch(count, seconds)
            with self._changed:
                self._expected = min(self._at_once, self._count() + count)
                self._until = monotonic() + min(GRACE * seconds, LONGEST_GRACE)
            for request in batch:
                request.answers.set_result(answers[: len(request.x)])
                answers = answers[len(request.x) :]

    def _next(self) -> list[_Waiting]:
        """The next batch: requests of the kind that has waited longest; empty once all is done and closed."""
        with self._changed:
            while True:
                self._gather()
                batch, remaining = list[_Waiting](), deque[_Waiting]()
                for request in self._waiting:
                    if batch and (request.kind != batch[0].kind or self._busy + len(request.x) > self._at_once):
                        remaining.append(request)
                    elif request.answers.set_running_or_notify_cancel():
                        batch.append(request)
                        self._busy += len(request.x)
                self._waiting = remaining
                if batch or self._closed:
                    return batch

    def _gather(self) -> None:
        """Wait for a request and then, for a moment, for the clients that were answered last."""
        while not (self._waiting or self._closed):
            self._changed.wait()
        while not self._closed and self._count() < self._expected:
            if not self._changed.wait(max(0.0, self._until - monotonic())):
                break
        self._expected = 0
