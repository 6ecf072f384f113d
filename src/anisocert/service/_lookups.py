"""Lookups that come together share one question to the memory, which answers one at a time.

Whoever finds nobody asking asks for all who wait; the others wait. An answer is never older than its question: who
asks takes only what has come before, and then begins a transaction.
"""

import threading
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import Certificate
from anisocert.memory import Memory, UnavailableError

Found = list[Certificate | None]


class Lookups:
    """What a memory promises, for many threads at once."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._asking, self._lock = memory, threading.Lock(), threading.Lock()
        self._waiting: list[tuple[NDArray[np.float32], Future[Found]]] = []

    def ask(self, x: NDArray[np.float32]) -> Found:
        """The promise that covers each input, or None. x: `b x *shape`."""
        mine: Future[Found] = Future()
        with self._lock:
            self._waiting.append((x, mine))
        with self._asking:
            if not mine.done():  # else whoever asked before has asked for this thread, too
                with self._lock:
                    some, self._waiting = self._waiting, []
                self._answer(some)
        return mine.result()

    def _answer(self, some: list[tuple[NDArray[np.float32], Future[Found]]]) -> None:
        try:
            found = self._memory.lookup_all([point for x, _ in some for point in x])
        except BaseException as error:
            # Nobody's input may take the answers of others with it; a memory that is away is away for all.
            if len(some) > 1 and not isinstance(error, UnavailableError):
                for one in some:
                    self._answer([one])
                return
            for _, future in some:
                future.set_exception(error)
            return
        for x, future in some:
            future.set_result(found[: len(x)])
            found = found[len(x) :]
