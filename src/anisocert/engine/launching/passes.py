"""A network's forward and backward pass replayed as two CUDA graphs: a search has many short kernels."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from anisocert.engine.given import Classifier
from anisocert.engine.launching.capture import Turn, Work, captured_parts
from anisocert.engine.launching.replaying import or_launched, replayable
from anisocert.engine.trial import identical

log = logging.getLogger(__name__)

Capture = Callable[[Sequence[Work], Sequence[Tensor], bool], Sequence[Work] | None]


class ReplayedPasses:
    """Scores and their gradients by replays, for batches like the one that was captured; else by the network.

    A replayed forward pass leaves its maps for the backward pass, and both write over those of the last one: who comes
    too late for its own maps goes forward again.
    """

    def __init__(self, launched: Classifier, like: Tensor, scores: Tensor) -> None:
        self.launched = launched
        self._x, self._x_gradient = like.clone(), torch.zeros_like(like)
        self._scores, self._score_gradient = scores.clone(), torch.zeros_like(scores)
        self._graph: tuple[Tensor, Tensor] | None = None  # of autograd, between the passes that are captured
        self._passes: Sequence[Work] = (self._forward, self._backward)
        self._turn, self._whose = Turn(like.device), 0

    def __call__(self, x: Tensor) -> Tensor:
        """x: `b x *shape` -> `b x num_classes`."""
        if (x.shape, x.dtype, x.device) != (self._x.shape, self._x.dtype, self._x.device):
            scores: Tensor = self.launched(x)
        else:
            scores = _Replay.apply(x, self)
        return scores

    def capture(self, capture: Capture) -> bool:
        """Capture both passes; whether calls are replayed from now on."""
        replays = capture(self._passes, [self._x, self._scores, self._score_gradient, self._x_gradient], False)
        self._graph = None
        self._passes = replays or self._passes
        return replays is not None

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        """Scores, and a number for the maps that are left for `backward`."""
        with self._turn.taken(wait=True):
            self._replay_forward(x)
            return self._scores.clone(), self._whose

    def backward(self, x: Tensor, maps: int, score_gradient: Tensor) -> Tensor:
        """Gradients to a batch. maps: their number, by `forward`."""
        with self._turn.taken(wait=True):
            if maps != self._whose:
                self._replay_forward(x)
            self._whose += 1  # nobody's: the backward pass writes over what it reads
            self._score_gradient.copy_(score_gradient)
            self._passes[1]()
            return self._x_gradient.clone()

    def _replay_forward(self, x: Tensor) -> None:
        self._whose += 1
        self._x.copy_(x)
        self._passes[0]()

    def _forward(self) -> None:
        with torch.enable_grad():
            leaf = self._x.detach().requires_grad_(True)
            scores = self.launched(leaf.clone())  # which a network may change
        self._scores.copy_(scores.detach())
        self._graph = leaf, scores

    def _backward(self) -> None:
        assert self._graph is not None
        leaf, scores = self._graph
        (gradient,) = torch.autograd.grad(scores, [leaf], self._score_gradient)
        self._x_gradient.copy_(gradient)


class _Replay(torch.autograd.Function):
    """A call of replayed passes, as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, passes: ReplayedPasses) -> Tensor:
        scores, maps = passes.forward(x)
        ctx.passes = passes
        # Saved, not set on ctx: what a second forward pass saves takes the place of the first's, with the later maps.
        ctx.save_for_backward(x, torch.tensor(maps, device="cpu"))
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, score_gradient: Tensor) -> tuple[Tensor, None]:
        x, maps = ctx.saved_tensors
        return ctx.passes.backward(x, int(maps), score_gradient), None


def replayed_passes(
    launched: Classifier, form: nn.Module, like: Tensor, capture: Capture = captured_parts
) -> Classifier:
    """A network as replays of both passes, or as it is where these are not certain to be the same.

    launched: its scores; form: what it was compiled from. like: a batch of the shape of its calls.
    """
    if not replayable(form):
        return launched
    return or_launched(partial(_captured, launched, like.detach(), capture), launched)


def _captured(launched: Classifier, like: Tensor, capture: Capture) -> ReplayedPasses | None:
    """None unless replays give launched scores and gradients bit by bit, for other inputs than those of the capture."""
    batches = (like.flip(0), like)
    expected = [_scores_and_gradients(launched, batch) for batch in batches]
    scores, others = (scores for scores, _ in expected)
    passes = ReplayedPasses(launched, like, scores)
    if identical(scores, others) or not passes.capture(capture):  # stale ones could not be told
        return None
    for batch, wanted in zip(batches, expected, strict=True):
        if not all(map(identical, wanted, _scores_and_gradients(passes, batch))):
            log.warning("the network's gradients are not replayed as CUDA graphs: they differ")
            return None
    return passes


def _scores_and_gradients(run: Classifier, x: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients are those of a sum in which each score has a weight of its own."""
    leaf = x.clone().requires_grad_(True)
    with torch.enable_grad():
        scores = run(leaf.clone())  # which a network may change
    (gradient,) = torch.autograd.grad(scores, [leaf], scores.detach().cos())
    return scores.detach(), gradient
