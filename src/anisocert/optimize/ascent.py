"""Gradient ascent on theta: noisy copies in, mean probabilities, soft gap, objective; the network is never trained.

Inputs go through in groups of one fixed, padded size, so that a group's other inputs cannot change an input's theta.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from anisocert.engine import Network, Stage, Stream
from anisocert.engine.noise import noise_source
from anisocert.errors import ArgumentError, ModelError
from anisocert.smoothing import Smoothing

Outputs = Literal["logits", "probabilities"]
Objective = Callable[[Tensor, Tensor], Tensor]
"""(gap `m`, theta `m x *shape`) -> what to maximise, `m`."""

ROWS_SHARE = 5  # a step with gradients keeps every activation: a fifth of the rows of a voting call


@dataclass(frozen=True)
class Ascent:
    """How to climb: `iterations` steps of an optimiser, each on `samples` fresh noisy copies an input.

    adam: Adam, else plain gradient steps. logarithmic: steps are taken in log(theta).
    """

    iterations: int
    samples: int
    learning_rate: float
    adam: bool
    logarithmic: bool

    def __post_init__(self) -> None:
        if self.iterations < 0 or self.samples < 1 or not self.learning_rate > 0:
            raise ArgumentError(
                "expected iterations >= 0, samples >= 1 and learning_rate > 0, got "
                f"{self.iterations}, {self.samples} and {self.learning_rate}"
            )

    @property
    def evaluations(self) -> int:
        """Network evaluations an input."""
        return self.iterations * self.samples

    def group(self, rows: int) -> int:
        """Inputs that climb together, in a network whose voting calls take so many rows."""
        return max(1, rows // ROWS_SHARE // self.samples)

    def climb(
        self,
        network: Network,
        smoothing: Smoothing,
        x: Tensor,
        ids: Sequence[int],
        start: Tensor,
        objective: Objective,
        *,
        lower: Tensor,
        upper: float,
        seed: int,
        outputs: Outputs,
    ) -> Tensor:
        """Theta after all steps, kept in [lower, upper] after each. x: `b x *shape`; start, lower: `b x ...`."""
        require_gradients(network, x, outputs)
        results = []
        for group, real in _groups(len(x), self.group(network.fit(tuple(x.shape[1:]), 0))):
            chosen = self._climb_group(
                network, smoothing, x[group], [int(ids[i]) for i in group], start[group], objective,
                lower[group], upper, seed, outputs,
            )  # fmt: skip
            results.append(chosen[:real])
        return torch.cat(results)

    def _climb_group(
        self,
        network: Network,
        smoothing: Smoothing,
        x: Tensor,
        ids: Sequence[int],
        start: Tensor,
        objective: Objective,
        lower: Tensor,
        upper: float,
        seed: int,
        outputs: Outputs,
    ) -> Tensor:
        value = start.log() if self.logarithmic else start
        value = value.clone().requires_grad_(True)
        optimizer: torch.optim.Optimizer
        if self.adam:
            optimizer = torch.optim.Adam([value], self.learning_rate, maximize=True)
        else:
            optimizer = torch.optim.SGD([value], self.learning_rate, maximize=True)
        shape = tuple(x.shape[1:])
        source = noise_source(network.device, smoothing.base, (1.0,), len(x), shape)
        for slot, number in enumerate(ids):
            source.open(
                slot, Stream(seed, Stage.OPTIMIZE, number), torch.zeros(shape), torch.ones(1, *(1 for _ in shape))
            )
        slots = np.repeat(np.arange(len(x)), self.samples)
        for i in range(self.iterations):
            votes = np.tile(np.arange(i * self.samples, (i + 1) * self.samples), len(x))
            eps = source.noisy(slots, votes).view(len(x), self.samples, *shape)
            theta = value.exp() if self.logarithmic else value
            noisy = x.unsqueeze(1) + theta.unsqueeze(1) * eps
            p = _probabilities(network, noisy.flatten(0, 1), outputs).view(len(x), self.samples, -1).mean(1)
            top = p.topk(2).values
            height = objective(smoothing.soft_gap(top[:, 0], top[:, 1]), theta)
            (value.grad,) = torch.autograd.grad(height.sum(), [value])
            optimizer.step()
            with torch.no_grad():
                bounded = torch.maximum((value.exp() if self.logarithmic else value).clamp(max=upper), lower)
                value.copy_(bounded.log() if self.logarithmic else bounded)
        return (value.exp() if self.logarithmic else value).detach()


def _probabilities(network: Network, rows: Tensor, outputs: Outputs) -> Tensor:
    """Class probabilities of noisy rows, with gradients to the rows, in the network's precision."""
    if rows.dim() == 4:
        rows = rows.contiguous(memory_format=torch.channels_last)
    lowered = network.numerics.precision == "bfloat16"
    with (
        torch.backends.cudnn.flags(enabled=True, deterministic=True),
        torch.autocast(network.device.type, torch.bfloat16, lowered),
    ):
        scores = network.model(rows).float()
    return scores.softmax(1) if outputs == "logits" else scores


def require_gradients(network: Network, x: Tensor, outputs: Outputs) -> None:
    """An error unless the network's scores can be differentiated by its input."""
    probe = x[:1].clone().requires_grad_(True)
    try:
        p = _probabilities(network, probe, outputs)
        (slope,) = torch.autograd.grad(p.sum(), [probe], allow_unused=True)
    except RuntimeError as reason:
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
    if outputs == "probabilities" and not bool(((total - 1).abs() < 1e-2).all() and (p >= 0).all()):
        raise ModelError(
            f"expected probabilities (outputs='probabilities'), got scores that sum to {float(total[0]):.3g}"
        )


def _groups(count: int, size: int) -> Iterator[tuple[Tensor, int]]:
    """Positions in groups of exactly `size`, the last one padded with repetitions, and how many are real."""
    for first in range(0, count, size):
        real = min(size, count - first)
        yield (first + torch.arange(size) % real), real
