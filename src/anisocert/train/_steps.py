"""The steps of an epoch: each launched kernel by kernel, or replayed as one CUDA graph."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from anisocert.engine.launching import Work, captured
from anisocert.smoothing import Smoothing
from anisocert.train._augment import Batches
from anisocert.train._mixed import Mixed
from anisocert.train.recipe import Recipe
from anisocert.train.sgd import Sgd


class Steps:
    """Steps of SGD on batches under noise. graph: whether the last epoch's were replays."""

    graph = False

    def __init__(
        self, network: Mixed, batches: Batches, smoothing: Smoothing, sgd: Sgd, optimizer: torch.optim.Optimizer
    ) -> None:
        self.network, self.batches, self.smoothing = network, batches, smoothing
        self.sgd, self.optimizer = sgd, optimizer
        self.total = torch.zeros((), device=batches.y.device)  # loss of the epoch's steps

    def epoch(self, recipe: Recipe, epoch: int) -> float:
        """One pass over the data; its mean loss. Nothing in it waits for the device before the end."""
        steps = self.batches.steps
        self.batches.shuffle()
        self.total.zero_()
        self._run(recipe, [self.sgd.rate(epoch * steps + step, self.sgd.epochs * steps) for step in range(steps)])
        return float(self.total) / steps

    def first_loss(self, recipe: Recipe) -> Tensor:
        """Loss of a batch, without a step."""
        x, y = next(self.batches.epoch())
        return recipe.loss(self.network, x, y, self.smoothing)

    def _run(self, recipe: Recipe, rates: Sequence[float]) -> None:
        for step, rate in enumerate(rates):
            self._step(recipe, step, rate)

    def _step(self, recipe: Recipe, step: int | Tensor, rate: float | Tensor) -> None:
        x, y = self.batches.batch(step)
        self._set_rate(rate)
        loss = recipe.loss(self.network, x, y, self.smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.sgd.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.sgd.clip)
        self.optimizer.step()
        self.total += loss.detach()

    def _set_rate(self, rate: float | Tensor) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate


class Replays(Steps):
    """Steps that are replays of one graph, captured again where the recipe changes; else as `Steps`.

    What differs from step to step is on the device: which batch, and the learning rate, in float32.
    """

    def __init__(
        self,
        network: Mixed,
        batches: Batches,
        smoothing: Smoothing,
        sgd: Sgd,
        optimizer: torch.optim.Optimizer,
        capture: Callable[[Work, Sequence[Tensor]], Work | None] = captured,
    ) -> None:
        super().__init__(network, batches, smoothing, sgd, optimizer)
        device = self.total.device
        self.at, self.rate = torch.zeros(1, dtype=torch.int64, device=device), torch.zeros(1, device=device)
        self.rates = torch.zeros(batches.steps, device=device)
        self.capture, self.graph = capture, True
        self.recipe: Recipe | None = None
        self.replay: Work | None = None

    def _run(self, recipe: Recipe, rates: Sequence[float]) -> None:
        self.at.zero_()
        self.rates.copy_(torch.tensor(rates))
        if self.graph and not _same(recipe, self.recipe):
            self.replay = None  # before the next one needs its memory
            self.recipe, self.replay = recipe, self.capture(lambda: self._next(recipe), self._state())
            self.graph = self.replay is not None
        if self.replay is None:
            super()._run(recipe, rates)
            return
        for _ in rates:
            self.replay()
        self._set_rate(rates[-1])  # the tensor belongs to the graph, the number to the training's state

    def _next(self, recipe: Recipe) -> None:
        """The step whose number is on the device."""
        self.rate.copy_(self.rates.index_select(0, self.at))
        self._step(recipe, self.at, self.rate)
        self.at += 1

    def _state(self) -> list[Tensor]:
        """All tensors that a step changes. Momentum begins as zeros: the first step is then like all others."""
        network, state = self.network, self.optimizer.state
        learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
        momentum = []
        if self.sgd.momentum > 0:
            for parameter in learned:
                if state[parameter].get("momentum_buffer") is None:
                    state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
            momentum = [state[parameter]["momentum_buffer"] for parameter in learned]
        return [*network.parameters(), *network.buffers(), *momentum, self.at, self.rate, self.total]


def _same(recipe: Recipe, other: Recipe | None) -> bool:
    """Whether a graph of one is one of the other; recipes that hold arrays may have no answer, which is no."""
    try:
        return bool(recipe == other)
    except (RuntimeError, ValueError):
        return False
