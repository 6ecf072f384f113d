"""The service without HTTP: a system, who may ask it, and what they are told."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.errors import AnisocertError
from anisocert.memory import Stats
from anisocert.service._failures import at_fault, failed, late
from anisocert.service._logging import log
from anisocert.service._lookups import Lookups
from anisocert.service._metrics import Metrics
from anisocert.service._question import Question
from anisocert.service._queue import Queue
from anisocert.service._rates import Rates
from anisocert.service._rules import Rules
from anisocert.service._telling import NONE, Answer, Names, Teller
from anisocert.service._threads import Threads, in_time
from anisocert.service.errors import RefusedError
from anisocert.service.keys import Key, KeyFile
from anisocert.service.limits import Limits
from anisocert.system import System

T = TypeVar("T")
THREADS = 8  # that read and write long bodies: more would only hold more of them
WATCHING = 2  # threads that look after the memory, and wait for no client's question
PATIENCE = 5.0  # seconds in which a memory that works answers
LAST = 8.0  # seconds that what was begun has to end, once no request waits, if the memory does not answer


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs that the page at / offers. x: `b x *shape`. labels: `b`."""

    x: NDArray[np.float32] = field(repr=False)
    labels: tuple[int, ...] = ()


class Service:
    """Answers questions about inputs for holders of keys.

    name: of the model, in the service's addresses. shape: of one input; None: the memory's. domain: the range that
    values must lie in. examples, names: for the page at /.
    """

    def __init__(
        self,
        system: System,
        keys: KeyFile,
        *,
        name: str = "classifier",
        shape: tuple[int, ...] | None = None,
        domain: tuple[float, float] | None = None,
        limits: Limits | None = None,
        names: Names | None = None,
        examples: Examples | None = None,
    ) -> None:
        self.rules = Rules(system, shape, domain)
        self.system, self.keys, self.name = system, keys, name
        self.limits, self.examples, self.names = limits or Limits(), examples, names or Names()
        self.rates, self.teller, self.lookups = Rates(), Teller(system, self.names), Lookups(system)
        self.metrics = Metrics(lambda: self.queue.waiting)
        self.threads, self._watching = Threads(THREADS, "bodies"), Threads(WATCHING, "watching")
        self._ended: bool | None = None
        self.queue = Queue(system, self.limits.waiting, self.limits.at_once, self.metrics.batch, self._batch_failed)

    @property
    def version(self) -> str:
        """The network's hash, or the name it was given instead."""
        return self.system.network.hash

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.rules.shape

    async def ready(self) -> bool:
        """Whether it answers now."""
        try:
            return self.queue.alive and await self._watching.run(self._readable, min(PATIENCE, self.limits.seconds))
        except Exception as error:
            log("memory failed", logging.ERROR, error)
            return False

    async def stats(self) -> Stats:
        """Numbers of the memory."""
        try:
            return await self._watching.run(self.system.memory.stats, self.limits.seconds)
        except Exception as error:
            raise self._memory_failed(error) from error

    def _readable(self) -> bool:
        return len(self.system.memory) >= 0

    def close(self) -> bool:
        """Finish what was begun, and end. False: the memory does not answer, and what it was not told yet is lost."""
        if self._ended is None:
            while not (ended := self.queue.close(LAST)):  # votes may take their time
                try:
                    self._watching.submit(self._readable).result(PATIENCE)
                except Exception as error:
                    log("memory failed", logging.ERROR, error)
                    break
            self._ended = ended
            for worker in (self.lookups, self.threads, self._watching):
                worker.close()
        return self._ended

    async def work(self, work: Callable[[], T], until: float, short: bool) -> T:
        """What the work returns, in a thread; refused if it is not done by `until`, a moment of the clock (monotonic).

        short: do it here, as it takes less time than to hand it over, and asks neither the memory nor the network.
        """
        if short:
            return work()
        try:
            return await self.threads.run(work, until - monotonic())
        except TimeoutError as error:
            raise late() from error

    async def plan_of(self, question: Question, key: Key, until: float, short: bool) -> Plan:
        """The plan that inputs are certified by, if this key may ask such a question."""
        self.rules.expect_right(question, key)
        self.rates.take(key, len(question.x), counted=1)  # when the request came

        def check() -> Plan:
            self.rules.expect_inputs(question)
            return self.rules.plan_of(question)

        with _refusing(self._memory_failed):
            return await self.work(check, until, short)

    async def answers(self, question: Question, plan: Plan, until: float) -> list[Answer]:
        """What is promised about each input, the rest from the network. until: a moment of the clock (monotonic)."""
        with _refusing(self._memory_failed):
            promises = await in_time(self.lookups.ask(question.x), until - monotonic())
        missing = [i for i, promise in enumerate(promises) if promise is None]
        if not missing or question.lookup:
            return promises
        with _refusing(failed):
            # A batch that has begun goes on even if it is late: its votes must be counted.
            certificates = await in_time(self.queue.ask(question.x[missing], plan), until - monotonic())
        fresh = iter(certificates)
        return [promise or next(fresh) for promise in promises]

    def tell(self, question: Question, answers: list[Answer], key: Key) -> dict[str, Any]:
        """The outputs that were asked for."""
        for answer in answers:
            self.metrics.answers.labels(NONE if answer is None else answer.note).inc()
        try:
            return self.teller.outputs(question.outputs, answers, question.x, key)
        except AnisocertError as error:
            raise self._memory_failed(error) from error

    def _memory_failed(self, error: Exception) -> RefusedError:
        self.metrics.failures.labels("memory").inc()
        log("memory failed", logging.ERROR, error)
        return failed(error)

    def _batch_failed(self, error: BaseException) -> None:
        self.metrics.failures.labels("batch").inc()
        log("batch failed", logging.ERROR, error)


@contextmanager
def _refusing(failed: Callable[[Exception], RefusedError]) -> Iterator[None]:
    """Turn errors into refusals: no answer in time, inputs at fault, or else what `failed` makes of the error."""
    try:
        yield
    except TimeoutError as error:
        raise late() from error
    except Exception as error:
        raise at_fault(error) or failed(error) from error
