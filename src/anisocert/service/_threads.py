"""Threads for work that would hold up the event loop, such as asking a memory that may not answer.

Starlette's own threads will not do: a process waits for them when it ends, and so does a request that has given up.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """A few threads that do what they are given, in its order. They end with the process, whatever they wait for."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._given: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        for _ in range(count):
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """What the work returns, later. It may be cancelled as long as no thread has begun with it."""
        future: Future[T] = Future()
        self._given.put((future, work))
        return future

    async def run(self, work: Callable[[], T], seconds: float) -> T:
        """What the work returns; TimeoutError if that takes longer. Work that no thread has begun is dropped then."""
        return await in_time(self.submit(work), seconds)

    def close(self) -> None:
        """End each thread once it has done what it was given before."""
        for _ in range(self._count):
            self._given.put(None)

    def _work(self) -> None:
        while task := self._given.get():
            future, work = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            del task, future, work  # no body is kept until the next one comes


async def in_time(asked: "Future[T]", seconds: float) -> T:
    """The result of a future of another thread; TimeoutError if it takes longer. It is cancelled then, if it can be."""
    waiter = asyncio.wrap_future(asked)
    waiter.add_done_callback(_hear)
    await asyncio.wait([waiter], timeout=max(0.0, seconds))
    if not asked.done():
        asked.cancel()  # which does nothing to work that has begun
        waiter.cancel()
        raise TimeoutError
    return asked.result()


def _hear(waiter: "asyncio.Future[Any]") -> None:
    """Look at an error: asyncio logs one that nobody has looked at, with its message."""
    if not waiter.cancelled():
        waiter.exception()
