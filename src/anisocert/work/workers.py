"""Where chunks are computed. Every place offers numbered certifiers whose methods can be called without waiting."""

import contextlib
import math
import multiprocessing
import os
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from anisocert.errors import AnisocertError
from anisocert.work._certifier import Certifier
from anisocert.work._cost import Advance, Meter
from anisocert.work.job import Job


class Lost:
    """Instead of a result: the worker ended before it gave one."""


class Workers(ABC):
    """Several certifiers. Each does one thing at a time; a lost one is made anew, and must settle its network again."""

    count: int

    @abstractmethod
    def start(self, worker: int, task: str, *arguments: Any) -> None:
        """Call a method of a certifier, without waiting for it."""

    @abstractmethod
    def wait(self, seconds: float = math.inf) -> list[tuple[int, Any]]:
        """(worker, result) of those that are done; waits until one is, or until time is up.

        A result is a value, Lost or an exception.
        """

    def close(self) -> None:
        """End them."""
        return


class InProcess(Workers):
    """One certifier in this process. advance: called as the work goes on, also within a chunk."""

    count = 1

    def __init__(self, job: Job, device: str, advance: Advance | None = None) -> None:
        self.certifier = Certifier(job.configuration, job.theta, device, job.model)
        self.certifier.meter = None if advance is None else Meter(advance)
        self.task: tuple[str, tuple[Any, ...]] | None = None

    def start(self, worker: int, task: str, *arguments: Any) -> None:
        """See Workers."""
        self.task = (task, arguments)

    def wait(self, seconds: float = math.inf) -> list[tuple[int, Any]]:
        """See Workers."""
        assert self.task is not None
        (task, arguments), self.task = self.task, None
        return [(0, getattr(self.certifier, task)(*arguments))]


class Processes(Workers):
    """One process per device, each with its own certifier."""

    def __init__(self, job: Job, devices: Sequence[str]) -> None:
        self.count, self.devices = len(devices), list(devices)
        self._made = (job.configuration, job.theta)
        self._context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
        self._running: list[tuple[BaseProcess, Connection] | None] = [None] * len(devices)

    def start(self, worker: int, task: str, *arguments: Any) -> None:
        """See Workers."""
        _, connection = self._running[worker] or self._open(worker)
        with contextlib.suppress(OSError):  # it is lost; waiting for its answer will show that
            connection.send((task, arguments))

    def wait(self, seconds: float = math.inf) -> list[tuple[int, Any]]:
        """See Workers."""
        workers = {running[1]: worker for worker, running in enumerate(self._running) if running is not None}
        ready = wait(list(workers), None if math.isinf(seconds) else max(0.0, seconds))
        return [
            (workers[connection], self._answer(workers[connection], connection))
            for connection in ready
            if isinstance(connection, Connection)
        ]

    def close(self) -> None:
        """End the processes."""
        for worker in range(self.count):
            self._end(worker)

    def _open(self, worker: int) -> tuple[BaseProcess, Connection]:
        here, there = self._context.Pipe()
        arguments = (*self._made, self.devices[worker])
        process = self._context.Process(target=_serve, args=(there, arguments, torch.get_num_threads()), daemon=True)
        process.start()
        there.close()  # so that the connection ends with the process
        self._running[worker] = (process, here)
        return process, here

    def _answer(self, worker: int, connection: Connection) -> Any:
        try:
            return connection.recv()
        except (EOFError, OSError):
            self._end(worker)
            return Lost()

    def _end(self, worker: int) -> None:
        if (running := self._running[worker]) is not None:
            process, connection = running
            connection.close()
            process.kill()
            process.join()
            self._running[worker] = None


class Served:
    """A certifier that is made when first called, and whose errors are answers."""

    def __init__(self, made: tuple[Any, ...]) -> None:
        self.made = made
        self.certifier: Certifier | None = None

    def call(self, task: str, arguments: tuple[Any, ...]) -> Any:
        """The result of a method of the certifier."""
        try:
            self.certifier = self.certifier or Certifier(*self.made)
            return getattr(self.certifier, task)(*arguments)
        except AnisocertError as error:
            return error
        except Exception as error:
            traceback.print_exc()
            return AnisocertError(f"a worker failed: {type(error).__name__}: {error}")


def _serve(connection: Connection, arguments: tuple[Any, ...], threads: int) -> None:
    """A worker process: called through the connection, and ending with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the calling process decides what follows
    torch.set_num_threads(threads)
    served = Served(arguments)
    try:
        while True:
            connection.send(served.call(*connection.recv()))
    except (EOFError, OSError):
        os._exit(0)
