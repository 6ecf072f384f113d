"""The service without HTTP: a system, who may ask it, and what they are told."""

import asyncio
import logging
import math
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.certificate import Certificate
from anisocert.errors import ArgumentError, ModelError
from anisocert.service._logging import log
from anisocert.service._lookups import Lookups
from anisocert.service._metrics import Metrics
from anisocert.service._question import Question
from anisocert.service._queue import Queue
from anisocert.service._rates import Rates
from anisocert.service._telling import NONE, Answer, Names, Teller
from anisocert.service.errors import RefusedError
from anisocert.service.keys import ADMIT, LOOKUP, Key, KeyFile
from anisocert.system import System

FAILED = "the network or the memory failed: ask again later"
LATE = (
    "the answer was not ready in time. If its votes are being drawn they are counted, and what is promised stays: ask "
    "again later"
)


@dataclass(frozen=True)
class Limits:
    """What a request may ask for. waiting: inputs in the queue. at_once: inputs of one batch. seconds: until an answer.

    Of the body: the most bytes, whatever a key may send, and the seconds in which it must arrive.
    """

    inputs: int = 256
    waiting: int = 1024
    at_once: int = 64
    seconds: float = 60.0
    body_bytes: int = 64 << 20
    body_seconds: float = 30.0


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs that the page at / offers. x: `b x *shape`. labels: `b`."""

    x: NDArray[np.float32] = field(repr=False)
    labels: tuple[int, ...] = ()


class Service:
    """Answers questions about inputs for holders of keys.

    name: of the model, in the service's addresses. shape: of one input; None: the first input that the network takes
    settles it. domain: the range that values must lie in. examples, names: for the page at /.
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
        self.system, self.keys, self.name, self.domain = system, keys, name, domain
        self.limits, self.examples, self.names = limits or Limits(), examples, names or Names()
        self.rates, self.teller, self.lookups = Rates(), Teller(system, self.names), Lookups(system.memory)
        self.metrics = Metrics(system.memory, lambda: self.queue.waiting)
        self.queue = Queue(system, self.limits.waiting, self.limits.at_once, self.metrics.batch, self._failed)
        self.shape: tuple[int, ...] | None = None
        self._settling = threading.Lock()
        known = system.memory.stats().shape
        if shape is not None and known is not None and shape != known:
            raise ArgumentError(f"expected inputs of shape {known}, as the memory holds them, got {shape}")
        if (settled := shape or known) is not None:
            self._settle(settled)

    @property
    def version(self) -> str:
        """The network's hash, or the name it was given instead."""
        return self.system.network.hash

    @property
    def ready(self) -> bool:
        """Whether it answers now."""
        try:
            return self.queue.alive and len(self.system.memory) >= 0
        except Exception as error:
            log("memory failed", logging.ERROR, error)
            return False

    def close(self) -> None:
        """Finish what was begun, and end."""
        self.queue.close()

    def known(self, question: Question, key: Key) -> list[Answer]:
        """What is promised about each input, once the question is found to be one that this key may ask."""
        if not key.may(LOOKUP if question.lookup else ADMIT):
            right = f"the right {LOOKUP}" if question.lookup else f"the right {ADMIT}, or the parameter lookup"
            raise RefusedError(403, f"expected a key with {right}, got one without")
        self.rates.take(key, max(0, len(question.x) - 1))  # one was counted when the request came
        self._expect_valid(question)
        self.plan_of(question)
        try:
            return self.lookups.ask(question.x)
        except ArgumentError as error:  # another process has settled the shape
            raise RefusedError(400, "expected inputs of the shape that the memory holds, got another") from error
        except Exception as error:
            self.metrics.failures.labels("memory").inc()
            log("memory failed", logging.ERROR, error)
            raise RefusedError(503, FAILED, 5) from error

    async def answers(self, question: Question, known: list[Answer]) -> list[Answer]:
        """Those that were known, and the others from the network, within the time that the question leaves."""
        missing = [i for i, one in enumerate(known) if one is None]
        if not missing or question.lookup:
            return known
        asked = self.queue.ask(question.x[missing], self.plan_of(question))
        found = iter(await self._within(asked, min(question.timeout or math.inf, self.limits.seconds)))
        return [one or next(found) for one in known]

    async def _within(self, asked: "Future[list[Certificate]]", seconds: float) -> list[Certificate]:
        waiter = asyncio.wrap_future(asked)
        await asyncio.wait([waiter], timeout=seconds)
        if not asked.done():
            asked.cancel()  # which does nothing once a batch has it: its votes must be counted
            waiter.cancel()
            raise RefusedError(504, LATE, 1)
        try:
            return asked.result()
        except ModelError as error:
            raise RefusedError(422, "the network gives these inputs no scores that can be certified") from error
        except RefusedError:
            raise
        except Exception as error:
            raise RefusedError(503, FAILED, 5) from error

    def tell(self, question: Question, answers: list[Answer], key: Key) -> dict[str, object]:
        """The outputs that were asked for."""
        for one in answers:
            self.metrics.answers.labels(NONE if one is None else one.note).inc()
        return self.teller.outputs(question.outputs, answers, question.x, key)

    def plan_of(self, question: Question) -> Plan:
        """The plan that the question asks for; refused if it goes beyond the server's, or can certify nothing."""
        ours, n, alpha = self.system.plan, question.n, question.alpha
        if n is None and alpha is None:
            return ours
        if alpha is not None and self.system.memory.lifetime is not None:
            raise RefusedError(400, "expected no alpha, as one alpha covers the lifetime of this memory, got one")
        if (n or 1) > ours.n or (alpha or 0.0) > ours.alpha:
            raise RefusedError(400, f"expected n <= {ours.n} and alpha <= {ours.alpha:g}, the server's own, got more")
        plan = replace(ours, n=n or ours.n, alpha=alpha or ours.alpha)
        if np.less_equal(*plan.best_case(self.system.network.num_classes)):
            # It would use up the input's attempts for nothing.
            raise RefusedError(400, "expected more votes (n) for this alpha, got too few to certify anything")
        return plan

    def _expect_valid(self, question: Question) -> None:
        shape = question.x.shape[1:]
        if self.shape is None and not question.lookup:
            self._settle(self.system.memory.stats().shape or shape)  # another process may have been first
        if self.shape is not None and shape != self.shape:
            raise RefusedError(400, f"expected inputs of shape {list(self.shape)}, got {list(shape)}")
        if self.domain is not None and (question.x.min() < self.domain[0] or question.x.max() > self.domain[1]):
            raise RefusedError(400, f"expected values from {self.domain[0]:g} to {self.domain[1]:g}, got others")

    def _settle(self, shape: tuple[int, ...]) -> None:
        """Take inputs of this shape from now on, if the network does."""
        try:
            with self._settling:
                if self.shape is None:
                    self.system.network.probe(shape)
                    self.shape = shape
        except (ModelError, RuntimeError, ValueError, IndexError) as error:
            raise RefusedError(400, f"expected inputs of a shape that the network takes, got {list(shape)}") from error

    def _failed(self, error: BaseException) -> None:
        self.metrics.failures.labels("batch").inc()
        log("batch failed", logging.ERROR, error)
