"""Scores and their gradients by replays of two CUDA graphs, forth and back: a search's kernels are short, and many."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd.function import once_differentiable

from anisocert.engine._graph import hooked
from anisocert.engine.agreement import identical
from anisocert.engine.capture import Work, captured_parts
from anisocert.engine.given import Classifier
from anisocert.engine.numerics import out_of_memory

log = logging.getLogger(__name__)

Capture = Callable[[Sequence[Work], Sequence[Tensor], bool], Sequence[Work] | None]


class Slopes:
    """Scores by a replay, and their gradients by another, for batches like the first one; else by the network.

    What a replay forth leaves for the way back stays until the next one, forth or back: whoever comes too late for it
    goes forth again. One caller at a time has the graphs, whatever threads and streams calls come from.
    """

    def __init__(self, launched: Classifier, like: Tensor, scores: Tensor) -> None:
        self.launched = launched
        self._x, self._slope = like.clone(), torch.zeros_like(like)
        self._scores, self._towards = scores.clone(), torch.zeros_like(scores)
        self._left: tuple[Tensor, Tensor] | None = None  # by the way forth, while it is captured
        self._replays: Sequence[Work] = (self._go_forth, self._go_back)
        self._turn, self._free = 0, threading.Lock()
        self._ended = torch.cuda.Event() if like.is_cuda else None

    def __call__(self, x: Tensor) -> Tensor:
        """x: `b x *shape` -> `b x num_classes`."""
        if (x.shape, x.dtype, x.device) != (self._x.shape, self._x.dtype, self._x.device):
            scores: Tensor = self.launched(x)
        else:
            scores = _Replay.apply(x, self)
        return scores

    def capture(self, capture: Capture) -> bool:
        """Whether it is from now on by replays."""
        replays = capture(self._replays, [self._x, self._scores, self._towards, self._slope], False)
        self._left = None
        self._replays = replays or self._replays
        return replays is not None

    def forth(self, x: Tensor) -> tuple[Tensor, int]:
        """Scores, and whose turn it was."""
        with self._held():
            self._fill(x)
            return self._scores.clone(), self._turn

    def back(self, x: Tensor, turn: int, towards: Tensor) -> Tensor:
        """Gradients of a batch. turn: that of its scores; towards: gradients to these."""
        with self._held():
            if turn != self._turn:
                self._fill(x)
            self._turn += 1  # the way back writes over what it reads
            self._towards.copy_(towards)
            self._replays[1]()
            return self._slope.clone()

    def _fill(self, x: Tensor) -> None:
        self._turn += 1
        self._x.copy_(x)
        self._replays[0]()

    @contextmanager
    def _held(self) -> Iterator[None]:
        with self._free:
            if self._ended is None:
                yield
                return
            stream = torch.cuda.current_stream(self._x.device)
            stream.wait_event(self._ended)
            try:
                with torch.cuda.device(self._x.device):
                    yield
            finally:
                self._ended.record(stream)

    def _go_forth(self) -> None:
        with torch.enable_grad():
            leaf = self._x.detach().requires_grad_(True)
            scores = self.launched(leaf.clone())  # which a network may change
        self._scores.copy_(scores.detach())
        self._left = leaf, scores

    def _go_back(self) -> None:
        assert self._left is not None
        leaf, scores = self._left
        (slope,) = torch.autograd.grad(scores, [leaf], self._towards)
        self._slope.copy_(slope)


class _Replay(torch.autograd.Function):
    """A batch's scores, with the way back to it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slopes: Slopes) -> Tensor:
        scores, ctx.turn = slopes.forth(x)
        ctx.slopes = slopes
        ctx.save_for_backward(x)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, towards: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return ctx.slopes.back(x, ctx.turn, towards), None


def replayed_both_ways(
    launched: Classifier, form: nn.Module, like: Tensor, capture: Capture = captured_parts
) -> Classifier:
    """A network as replays of its calls, for batches like one; or as it is where that is not certain to be the same.

    launched: its scores; form: what it was compiled from. Only a traced network without hooks is replayed: it has no
    state in Python.
    """
    if not isinstance(form, fx.GraphModule) or any(map(hooked, form.modules())):
        return launched
    try:
        return _captured(launched, like.detach(), capture) or launched
    except RuntimeError as error:  # the network itself has been seen to fit
        if not out_of_memory(error):
            raise
        log.info("no memory for CUDA graphs of the network's gradients")
        return launched


def _captured(launched: Classifier, like: Tensor, capture: Capture) -> Slopes | None:
    """None unless replays give the launched scores and gradients bit by bit, for other inputs than those captured."""
    batches = (like.flip(0), like)
    expected = [_both_ways(launched, batch) for batch in batches]
    scores, others = (scores for scores, _ in expected)
    slopes = Slopes(launched, like, scores)
    if identical(scores, others) or not slopes.capture(capture):  # stale ones could not be told
        return None
    for batch, wanted in zip(batches, expected, strict=True):
        if not all(map(identical, wanted, _both_ways(slopes, batch))):
            log.warning("gradients of the network are not replayed as CUDA graphs: they differ")
            return None
    return slopes


def _both_ways(run: Classifier, x: Tensor) -> tuple[Tensor, Tensor]:
    """Scores, and their gradients in a direction that is neither theirs nor the same for each."""
    leaf = x.clone().requires_grad_(True)
    with torch.enable_grad():
        scores = run(leaf.clone())  # which a network may change
    (slope,) = torch.autograd.grad(scores, [leaf], scores.detach().cos())
    return scores.detach(), slope
