"""Soft votes: mean class probabilities over noisy copies, with gradients to theta or to the input, never to weights."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from anisocert.engine import Query, Stage
from anisocert.engine.noise import noise_source
from anisocert.engine.numerics import out_of_memory
from anisocert.errors import ModelError

Outputs = Literal["logits", "probabilities"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What an ascent is about. outputs: what the network returns."""

    query: Query
    outputs: Outputs

    def part(self, places: Tensor) -> "Problem":
        """The same for some of the inputs."""
        return Problem(self.query.part(places.tolist()), self.outputs)

    def probabilities(self, rows: Tensor) -> Tensor:
        """Class probabilities of noisy rows, with gradients to the rows, in the network's precision."""
        scores = self.query.network.differentiable_scores(rows)
        return scores.softmax(1) if self.outputs == "logits" else scores

    def require_gradients(self) -> None:
        """An error unless the network's scores can be differentiated by its input."""
        probe = self.query.x[:1].clone().requires_grad_(True)
        try:
            p = self.probabilities(probe)
            (slope,) = torch.autograd.grad(p.sum(), [probe], allow_unused=True)
        except RuntimeError as reason:
            if out_of_memory(reason):
                raise
            slope = None
            cause: RuntimeError | None = reason
        else:
            cause = None
        if slope is None:
            raise ModelError(
                "expected a network with gradients to its input for this method, got a black box: "
                "use Fixed(), or Isotropic(), which needs votes alone"
            ) from cause
        total = p.detach().sum(1)
        if self.outputs == "probabilities" and not bool(((total - 1).abs() < 1e-2).all() and (p >= 0).all()):
            raise ModelError(
                f"expected probabilities (outputs='probabilities'), got scores that sum to {float(total[0]):.3g}"
            )


class SoftVotes:
    """Mean probabilities of a problem's inputs over copies of each, of which `at_once` are held in memory."""

    def __init__(self, problem: Problem, at_once: int, stage: Stage = Stage.OPTIMIZE) -> None:
        self.problem, self.at_once = problem, at_once
        query = problem.query
        own, scales = query.smoothing, torch.ones(len(query), 1, *(1 for _ in query.shape))
        self._mixed = len(own.weights) > 1
        if self._mixed:  # no gradient reaches its theta, which is given: the copies come with each component's scale
            scales = own.scales(torch.from_numpy(np.array(own.theta)).expand(query.x.shape))
        self._noise = noise_source(query.network.device, own.base, own.weights, len(query), query.shape)
        self._noise.open(range(len(query)), query.streams(stage), torch.zeros_like(query.x), scales)

    def mean(self, theta: Tensor, first: int, samples: int, x: Tensor | None = None) -> Tensor:
        """Over the copies first, first + 1, ... `samples` of them, after those before: `b x num_classes`.

        x: other points than the problem's inputs, under the same noise.
        """
        points, stop = self.problem.query.x if x is None else x, first + samples
        noise = [self._draw(i, min(i + self.at_once, stop)) for i in range(first, stop, self.at_once)]
        if len(noise) == 1:
            return self._sum(points, theta, noise[0]) / samples
        # Each part is computed again when its gradient is wanted, so that one part's activations are kept at a time.
        sums = [
            checkpoint(self._sum, points, theta, eps, use_reentrant=False, preserve_rng_state=False) for eps in noise
        ]
        return torch.stack(sums).sum(0) / samples

    def _draw(self, first: int, stop: int) -> Tensor:
        inputs, count = len(self.problem.query), stop - first
        slots, copies = np.repeat(np.arange(inputs), count), np.tile(np.arange(first, stop), inputs)
        return self._noise.noisy(slots, copies).view(inputs, count, *self.problem.query.shape)

    def _sum(self, x: Tensor, theta: Tensor, eps: Tensor) -> Tensor:
        scales = self.problem.query.smoothing.scales(theta)  # an error where theta is not a mixture's own
        noisy = x.unsqueeze(1) + (eps if self._mixed else scales * eps)
        return self.problem.probabilities(noisy.flatten(0, 1)).view(*eps.shape[:2], -1).sum(1)
