"""The service without HTTP: a system, who may ask it, and what they are told."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.engine.grid import LONGEST
from anisocert.errors import AnisocertError, ArgumentError, ModelError
from anisocert.memory import BrokenMemoryError, ChangedError, ShapeError, Stats, UnavailableError
from anisocert.service._logging import log
from anisocert.service._lookups import Lookups
from anisocert.service._metrics import Metrics
from anisocert.service._question import Question
from anisocert.service._queue import Queue
from anisocert.service._rates import Rates
from anisocert.service._telling import NONE, Answer, Names, Teller
from anisocert.service._threads import Threads, in_time
from anisocert.service.errors import RefusedError
from anisocert.service.keys import ADMIT, LOOKUP, PLAN, Key, KeyFile
from anisocert.service.limits import Limits
from anisocert.system import System

T = TypeVar("T")
THREADS = 8  # that read bodies and ask the memory, which answers one at a time: more would only hold more bodies
WATCHING = 2  # threads that look after the memory, behind no client's question
PATIENCE = 5.0  # seconds in which a memory that works answers
LAST = 10.0  # seconds in which what was begun must end, once no request waits, if the memory does not answer
FAILED = "the network or the memory failed: ask again later"
REASONS: Final[dict[type[Exception], str]] = {
    UnavailableError: "the memory cannot be reached: ask again later",
    BrokenMemoryError: "the memory is damaged: the service answers again once its operator has mended it",
    TimeoutError: "the memory does not answer in time: ask again later",
    ChangedError: "the memory was moved or changed: the service answers again once its operator has restarted it",
}
SHAPE = "expected inputs of the shape that the memory holds, got another"
LATE = (
    "the answer was not ready in time. If its votes are being drawn they are counted, and what is promised stays: ask "
    "again later"
)


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
        self.metrics = Metrics(lambda: self.queue.waiting)
        self.threads, self._watching = Threads(THREADS, "asking"), Threads(WATCHING, "watching")
        self._ended: bool | None = None
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
            self.threads.close()
            self._watching.close()
        return self._ended

    async def within(self, work: Callable[[], T], until: float) -> T:
        """What the work returns, in a thread; refused if that takes until after a moment of the clock (monotonic)."""
        try:
            return await self.threads.run(work, until - monotonic())
        except TimeoutError as error:
            raise RefusedError(504, LATE, 1) from error

    def known(self, question: Question, key: Key) -> tuple[Plan, list[Answer]]:
        """The plan, and what is promised about each input, if this key may ask such a question."""
        if not key.may(LOOKUP if question.lookup else ADMIT):
            right = f"the right {LOOKUP}" if question.lookup else f"the right {ADMIT}, or the parameter lookup"
            raise RefusedError(403, f"expected a key with {right}, got one without")
        self.rates.take(key, len(question.x), counted=1)  # when the request came
        try:
            self._expect_valid(question)
            return self.plan_of(question, key), self.lookups.ask(question.x)
        except RefusedError:
            raise
        except ShapeError as error:  # another process has settled the shape
            raise RefusedError(400, SHAPE) from error
        except Exception as error:
            raise self._memory_failed(error) from error

    async def answers(self, question: Question, plan: Plan, known: list[Answer], until: float) -> list[Answer]:
        """Those that were known, and the others from the network. until: a moment of the clock (monotonic)."""
        missing = [i for i, one in enumerate(known) if one is None]
        if not missing or question.lookup:
            return known
        try:
            # Late, a batch that has begun goes on: its votes must be counted.
            found = await in_time(self.queue.ask(question.x[missing], plan), until - monotonic())
        except TimeoutError as error:
            raise RefusedError(504, LATE, 1) from error
        except ModelError as error:
            raise RefusedError(422, "the network gives these inputs no scores that can be certified") from error
        except ShapeError as error:
            raise RefusedError(400, SHAPE) from error
        except RefusedError:
            raise
        except Exception as error:
            raise RefusedError(503, _reason(error), 5) from error
        others = iter(found)
        return [one or next(others) for one in known]

    def tell(self, question: Question, answers: list[Answer], key: Key) -> dict[str, Any]:
        """The outputs that were asked for."""
        for one in answers:
            self.metrics.answers.labels(NONE if one is None else one.note).inc()
        try:
            return self.teller.outputs(question.outputs, answers, question.x, key)
        except AnisocertError as error:
            raise self._memory_failed(error) from error

    def plan_of(self, question: Question, key: Key) -> Plan:
        """The plan that the question asks for; refused if it goes beyond the server's, or can certify nothing.

        Votes that certify little use up an input's attempts for everybody, so a smaller plan needs a right of its own.
        """
        ours, n, alpha = self.system.plan, question.n, question.alpha
        if n is None and alpha is None:
            return ours
        if not (question.lookup or key.may(PLAN)):
            raise RefusedError(403, f"expected a key with the right {PLAN}, or no n and no alpha, got one without")
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
            single = ": if x is a single input, pass x[None]" if question.x.shape == self.shape else ""
            raise RefusedError(400, f"expected inputs of shape {list(self.shape)}, got {list(shape)}{single}")
        if self.domain is not None and (question.x.min() < self.domain[0] or question.x.max() > self.domain[1]):
            raise RefusedError(400, f"expected values from {self.domain[0]:g} to {self.domain[1]:g}, got others")
        # Half of what the network's inputs may be: the rest is for the noise.
        grid = self.system.network.grid
        largest = (LONGEST * grid if grid else float(np.finfo(np.float32).max)) / 2
        if np.abs(question.x).max() > largest:
            raise RefusedError(400, f"expected values from {-largest:g} to {largest:g}, got others")

    def _settle(self, shape: tuple[int, ...]) -> None:
        """Take inputs of this shape from now on, if the network does."""
        try:
            with self._settling:
                if self.shape is None:
                    self.system.network.probe(shape)
                    self.shape = shape
        except (ModelError, RuntimeError, ValueError, IndexError) as error:
            raise RefusedError(400, f"expected inputs of a shape that the network takes, got {list(shape)}") from error

    def _memory_failed(self, error: Exception) -> RefusedError:
        self.metrics.failures.labels("memory").inc()
        log("memory failed", logging.ERROR, error)
        return RefusedError(503, _reason(error), 5)

    def _failed(self, error: BaseException) -> None:
        self.metrics.failures.labels("batch").inc()
        log("batch failed", logging.ERROR, error)


def _reason(error: Exception) -> str:
    """Why there is no answer, by the kind of error: its message is for the operator."""
    return next((words for kind, words in REASONS.items() if isinstance(error, kind)), FAILED)
