"""Lookups in the memory, by one thread: all that have arrived while it was busy are made together.

The memory serves one caller at a time, and each call costs a transaction. No answer is older than its question: the
thread takes what waits, and only then begins the transaction.
"""

import threading
from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import Certificate
from anisocert.memory import Memory, UnavailableError
from anisocert.system import System

Found = list[Certificate | None]
_Asked = tuple[NDArray[np.float32], "Future[Found]"]


class Lookups:
    """Looks up what a memory promises, for many callers. The thread ends with the process, whatever it waits for.

    at_once: a batch that has so many inputs takes no further request, so that the first callers need not wait for all.
    """

    def __init__(self, memory: Memory | System, at_once: int = 256) -> None:
        self._memory, self._at_once = memory, at_once
        self._waiting: SimpleQueue[_Asked | None] = SimpleQueue()
        threading.Thread(target=self._work, name="lookups", daemon=True).start()

    def ask(self, x: NDArray[np.float32]) -> "Future[Found]":
        """The promise that covers each input, or None, later; until then it may be cancelled. x: `b x *shape`."""
        future: Future[Found] = Future()
        self._waiting.put((x, future))
        return future

    def close(self) -> None:
        """End the thread once it has answered everything asked so far."""
        self._waiting.put(None)

    def _work(self) -> None:
        while batch := self._next():
            self._answer([lookup for lookup in batch if lookup[1].set_running_or_notify_cancel()])
            del batch  # no input is kept until the next one comes

    def _next(self) -> list[_Asked]:
        """All lookups that wait, up to so many inputs; empty once it is closed."""
        batch, count = list[_Asked](), 0
        while not batch or (count < self._at_once and not self._waiting.empty()):
            lookup = self._waiting.get()
            if lookup is None:
                if batch:
                    self.close()  # for the next time
                break
            batch.append(lookup)
            count += len(lookup[0])
        return batch

    def _answer(self, batch: list[_Asked]) -> None:
        try:
            promises = self._memory.lookup_all([point for x, _ in batch for point in x])
        except BaseException as error:
            # One caller's input must not cost others their answers; but a memory that is away is away for all.
            if len(batch) > 1 and not isinstance(error, UnavailableError):
                for lookup in batch:
                    self._answer([lookup])
                return
            for _, future in batch:
                future.set_exception(error)
            return
        for x, future in batch:
            future.set_result(promises[: len(x)])
            promises = promises[len(x) :]
