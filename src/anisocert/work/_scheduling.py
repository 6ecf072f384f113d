"""Chunks for workers: each gets the next inputs when it is free, as many as keep it busy for a few seconds."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.runs import Configuration
from anisocert.runs.differences import same_probe
from anisocert.work._certifier import Settled
from anisocert.work.job import Job
from anisocert.work.workers import Lost, Workers

CHUNK_SECONDS = 4.0
LARGEST_CHUNK = 4096
MOST_GROWTH = 4.0  # from one chunk to the next: the first ones also pay the one-off costs
MOST_LOSSES = 3  # of one worker, or of one input's workers, before giving up

Rows = list[dict[str, Any]]


def next_size(inputs: int, seconds: float) -> float:
    """The size of the chunk after one that took so long."""
    return max(1.0, inputs * min(CHUNK_SECONDS / max(seconds, 1e-3), MOST_GROWTH))


def in_groups(size: float, group: int) -> int:
    """The nearest size of whole groups, one or more."""
    return group * max(1, round(size / group))


@dataclass(eq=False)
class Schedule:
    """The workers of a run. keep: takes finished rows. deadline: of time.monotonic, when to stop."""

    job: Job
    begun: Configuration
    workers: Workers
    keep: Callable[[Rows], None]
    deadline: float | None = None
    waiting: deque[int] = field(default_factory=deque)
    busy: dict[int, Sequence[int]] = field(default_factory=dict)  # no inputs: it is preparing its network
    since: dict[int, float] = field(default_factory=dict)
    size: dict[int, float] = field(default_factory=dict)
    idle: set[int] = field(default_factory=set)
    group: int = 1
    lost_inputs: Counter[int] = field(default_factory=Counter)
    lost_workers: Counter[int] = field(default_factory=Counter)

    def work(self, ids: Sequence[int]) -> list[int]:
        """Do these inputs; returns those that time did not suffice for."""
        self.waiting = deque(ids)
        for worker in range(min(self.workers.count, len(ids))):
            self._settle(worker)
        while any(self.busy.values()) or (self.busy and self.waiting and self._left() > 0):
            left = self._left()
            for worker, answer in self.workers.wait(left if left > 0 else math.inf):  # out of time: until these end
                chunk = self.busy.pop(worker, ())
                if isinstance(answer, Lost):
                    self._lost(worker, chunk)
                elif chunk:
                    self._done(worker, chunk, answered(answer))
                else:
                    self._settled(worker, answered(answer))
            for worker in list(self.idle):
                self._next(worker)
        return sorted(self.waiting)

    def _left(self) -> float:
        """Seconds."""
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def _settle(self, worker: int) -> None:
        self.workers.start(worker, "settle", self.begun.numerics, self.job.examples.shape, len(self.job.ids))
        self.busy[worker] = ()

    def _settled(self, worker: int, settled: Settled) -> None:
        for name in ("device", "numerics", "model_hash"):
            expected, got = getattr(self.begun, name), getattr(settled, name)
            if expected != got:
                raise ArgumentError(f"expected {name} {expected}, which the run began with, got {got}")
        if not same_probe(self.begun, settled.probe):
            raise ArgumentError("expected the network that the run began with, got one that behaves differently")
        self.group = settled.group
        self.lost_workers[worker] = 0
        self.idle.add(worker)

    def _next(self, worker: int) -> None:
        """Hand an idle worker the next chunk, if there is one, and time for it."""
        left = self._left()
        if not self.waiting or left <= 0:
            return
        size = in_groups(self.size.get(worker, 1.0) * min(1.0, left / CHUNK_SECONDS), self.group)
        fair = math.ceil(len(self.waiting) / self.workers.count)
        chunk = self._take(min(size, fair, LARGEST_CHUNK))
        self.idle.remove(worker)
        self.busy[worker], self.since[worker] = chunk, time.monotonic()
        self.workers.start(worker, "certify", self.job.chunk(chunk, self.begun), left)

    def _take(self, size: int) -> list[int]:
        """The next inputs; one that was lost almost too often comes alone, so that no other is blamed for it."""
        chunk = [self.waiting.popleft()]
        while self.waiting and len(chunk) < size:
            if self.lost_inputs[chunk[-1]] >= MOST_LOSSES - 1 or self.lost_inputs[self.waiting[0]] >= MOST_LOSSES - 1:
                break
            chunk.append(self.waiting.popleft())
        return chunk

    def _done(self, worker: int, chunk: Sequence[int], rows: Rows) -> None:
        if rows:
            self.keep(rows)
        done = {row["idx"] for row in rows}
        self.waiting.extendleft(number for number in reversed(chunk) if number not in done)
        self.size[worker] = next_size(len(chunk), time.monotonic() - self.since[worker])
        self.idle.add(worker)

    def _lost(self, worker: int, chunk: Sequence[int]) -> None:
        """Return the inputs to the queue; the worker starts anew."""
        self.waiting.extendleft(reversed(chunk))
        self.lost_inputs.update(chunk)
        self.lost_workers[worker] += not chunk
        if self.lost_workers[worker] >= MOST_LOSSES:
            raise AnisocertError(f"expected worker {worker} to start, got {MOST_LOSSES} failed attempts")
        if chunk and self.lost_inputs[chunk[0]] >= MOST_LOSSES:
            raise AnisocertError(
                f"expected a worker to certify example {chunk[0]}, got {MOST_LOSSES} that ended (out of memory?)"
            )
        self.size[worker] = 1.0
        self.idle.discard(worker)
        self._settle(worker)


def answered(answer: Any) -> Any:
    """A worker's answer; an exception is raised here."""
    if isinstance(answer, Lost):
        raise AnisocertError("expected a worker to start, got one that ended")
    if isinstance(answer, BaseException):
        raise answer
    return answer
