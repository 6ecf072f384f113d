"""Soft votes: mean class probabilities over noisy copies, with gradients to theta or to the input, never to weights."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from anisocert.engine import Query, Stage
from anisocert.engine.noise import noise_source
from anisocert.engine.numerics import ALIGN, out_of_memory
from anisocert.engine.returned import are_probabilities
from anisocert.engine.settings import differentiating
from anisocert.errors import AnisocertWarning, ModelError

Outputs = Literal["logits", "probabilities"]
TAKEN_FOR_LOGITS = (
    "its scores are probabilities, it seems (rows of 0 to 1 that sum to 1): Anisotropic(outputs='probabilities') "
    "(--outputs probabilities) lets the search use them as such; votes are the same"
)


@dataclass(frozen=True, eq=False)
class Problem:
    """What an ascent is about. outputs: what the network returns.

    top: `b`, the class of each input whose gap is asked for, against all others together; without it the gap is that of
    the two leading ones.
    """

    query: Query
    outputs: Outputs
    top: Tensor | None = None

    def part(self, places: Tensor) -> "Problem":
        """The problem for some of the inputs."""
        top = None if self.top is None else self.top[places.to(self.top.device)]
        return Problem(self.query.part(places.tolist()), self.outputs, top)

    def gap(self, p: Tensor) -> Tensor:
        """The gap of mean probabilities. p: `b x num_classes` -> `b`."""
        if self.top is None:
            first, second = p.topk(2).values.unbind(1)
            return self.query.smoothing.soft_gap(first, second)
        p_top = p.gather(1, self.top.unsqueeze(1))[:, 0]
        return self.query.smoothing.soft_gap(p_top, 1 - p_top)

    def probabilities(self, rows: Tensor, scale: Tensor, one_shape: bool = False) -> Tensor:
        """Class probabilities of noisy rows, with gradients to the rows, in the network's precision.

        scale: of the noise of each input's copies, `b x ...`. Where the network is told it, gradients go to it too: it
        may look away from values that it knows to be noisy, which then cost it less.
        one_shape: as many rows as in most other calls, for which the network may be compiled.
        """
        return self._as_probabilities(self._scores(rows, scale, one_shape))

    def _scores(self, rows: Tensor, scale: Tensor, one_shape: bool = False) -> Tensor:
        return self.query.network.differentiable_scores(self.query.given(rows, scale), one_shape)

    def _as_probabilities(self, scores: Tensor) -> Tensor:
        return scores.softmax(1) if self.outputs == "logits" else scores

    @differentiating()
    def require_gradients(self) -> None:
        """An error unless the network's scores can be differentiated by its input, and are what they are said to be."""
        rows = [place % len(self.query) for place in range(ALIGN)]  # as many as votes have at least
        probe = self.query.x[rows].requires_grad_(True)
        slope, cause = None, None
        try:
            scores = self._scores(probe.clone(), torch.ones_like(probe))  # which a network may change
            p = self._as_probabilities(scores)
            (slope,) = torch.autograd.grad(p.sum(), [probe], allow_unused=True)
        except RuntimeError as reason:
            if out_of_memory(reason):
                raise
            cause = reason
        if slope is None:
            raise ModelError(
                "expected a network with gradients to its input for this method, got a black box: "
                "use Isotropic() (--method isotropic), which needs votes alone, or Fixed() (--method fixed)"
            ) from cause
        normalised = are_probabilities(scores.detach())
        if self.outputs == "probabilities" and not normalised:
            total = float(scores.detach()[0].sum())
            raise ModelError(f"expected probabilities (outputs='probabilities'), got scores that sum to {total:.3g}")
        if self.outputs == "logits" and normalised:
            warnings.warn(TAKEN_FOR_LOGITS, AnisocertWarning, stacklevel=2)


class SoftVotes:
    """Mean probabilities of a problem's inputs over copies of each, of which at most `at_once` are held in memory.

    centred: the mean of an input's noises is taken off each (and what that shrinks is put back), so that slopes by
    theta, each the mean of slope times noise, are free of what the mean slope and the mean noise add to them by chance.
    one_shape: see Problem.probabilities.
    """

    def __init__(
        self,
        problem: Problem,
        at_once: int,
        stage: Stage = Stage.OPTIMIZE,
        centred: bool = False,
        one_shape: bool = False,
    ) -> None:
        self.problem, self.at_once, self.centred, self.one_shape = problem, at_once, centred, one_shape
        query = problem.query
        smoothing, scales = query.smoothing, query.x.new_ones(len(query), 1, *(1 for _ in query.shape))
        self._mixed = len(smoothing.weights) > 1
        if self._mixed:  # no gradient reaches its theta, which is given: the copies come with each component's scale
            scales = smoothing.scales(torch.from_numpy(np.array(smoothing.theta)).expand(query.x.shape))
        self._noise = noise_source(query.network.device, smoothing.base, smoothing.weights, len(query), query.shape)
        self._noise.open(range(len(query)), query.streams(stage), torch.zeros_like(query.x), scales)
        self._rows = dict[int, Tensor]()  # slots and copies by number of copies, on a GPU

    def mean(self, theta: Tensor, first: int, samples: int, x: Tensor | None = None) -> Tensor:
        """Over the copies first, first + 1, ... `samples` of them, after those before: `b x num_classes`.

        x: other points than the problem's inputs, under the same noise.
        """
        points, parts = self.problem.query.x if x is None else x, list(self._parts(first, samples))
        if self.centred and samples > 1:
            mean = torch.stack([eps[:, :real].sum(1) for eps, real in parts]).sum(0).unsqueeze(1) / samples
            parts = [((eps - mean) * math.sqrt(samples / (samples - 1)), real) for eps, real in parts]
        if len(parts) == 1:
            return self._sum(points, theta, *parts[0]) / samples
        # Each part is computed again when its gradient is wanted, so that one part's activations are kept at a time.
        sums = [
            checkpoint(self._sum, points, theta, *part, use_reentrant=False, preserve_rng_state=False) for part in parts
        ]
        return torch.stack(sums).sum(0) / samples

    def sensitivity(self, theta: Tensor, samples: int) -> Tensor:
        """Mean squared slope of the probability of class `top` by each coordinate, over copies: `b x *shape`."""
        query, top, total = self.problem.query, self.problem.top, torch.zeros_like(self.problem.query.x)
        assert top is not None
        for eps, real in self._parts(0, samples):
            scales = query.smoothing.scales(theta)
            rows = (query.x.unsqueeze(1) + scales * eps).flatten(0, 1).requires_grad_(True)
            p = self.problem.probabilities(rows.clone(), scales[:, 0], self.one_shape)  # which a network may change
            p_top = p.gather(1, top.repeat_interleave(eps.shape[1]).unsqueeze(1))
            (slope,) = torch.autograd.grad(p_top.sum(), [rows])
            total += slope.view(eps.shape)[:, :real].square().sum(1)
        return total / samples

    def _parts(self, first: int, samples: int) -> Iterator[tuple[Tensor, int]]:
        """The noise of copies, in parts of one size, and how many copies of each part are real.

        The last one is padded with repetitions: the network may be compiled for one size.
        """
        stop, count = first + samples, math.ceil(samples / self.at_once)
        size = math.ceil(samples / count)
        for i in range(first, stop, size):
            real = min(size, stop - i)
            eps = self._draw(i, i + real)
            yield (eps if real == size else eps[:, torch.arange(size, device=eps.device) % real]), real

    def _draw(self, first: int, stop: int) -> Tensor:
        inputs, count = len(self.problem.query), stop - first
        shape = (inputs, count, *self.problem.query.shape)
        if self.problem.query.network.device.type == "cuda":
            return self._draw_ahead(inputs, first, count).view(shape)
        slots, copies = np.repeat(np.arange(inputs), count), np.tile(np.arange(first, stop), inputs)
        return self._noise.noisy(slots, copies).view(shape)

    def _draw_ahead(self, inputs: int, first: int, count: int) -> Tensor:
        """As `_draw`, by numbers that are on the GPU already: sending them would wait for the step before."""
        from anisocert.engine.noise_cuda import CudaNoise

        assert isinstance(self._noise, CudaNoise)
        if count not in self._rows:
            slots, copies = np.repeat(np.arange(inputs), count), np.tile(np.arange(count), inputs)
            self._rows[count] = torch.from_numpy(np.stack([slots, copies]).astype(np.int32)).to(self._noise.device)
        slot, copy = self._rows[count]
        return self._noise.noisy_rows(torch.stack([slot, copy + first]))

    def _sum(self, x: Tensor, theta: Tensor, eps: Tensor, real: int) -> Tensor:
        scales = self.problem.query.smoothing.scales(theta)  # an error where theta is not a mixture's own
        noisy = (x.unsqueeze(1) + (eps if self._mixed else scales * eps)).flatten(0, 1)
        p = self.problem.probabilities(noisy, scales[:, 0], self.one_shape)
        return p.view(*eps.shape[:2], -1)[:, :real].sum(1)
