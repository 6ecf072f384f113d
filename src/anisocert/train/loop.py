"""The one training loop."""

from collections.abc import Callable

import torch
from torch import nn

from anisocert.data import Dataset
from anisocert.errors import ArgumentError
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe


def train(
    model: nn.Module,
    data: Dataset,
    recipe: Recipe,
    smoothing: Smoothing,
    *,
    epochs: int,
    batch_size: int = 64,
    learning_rate: float = 0.05,
    weight_decay: float = 5e-4,
    seed: int = 0,
    on_epoch: Callable[[int, float], None] | None = None,
) -> None:
    """Train `model` in place: SGD with momentum under a one-cycle schedule; it is left in evaluation mode.

    on_epoch is told the number of epochs done and the mean loss of the last.
    """
    if epochs < 1:
        raise ArgumentError(f"expected epochs >= 1, got {epochs}")
    torch.manual_seed(seed)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    steps = -(-len(x) // batch_size)
    optimizer = torch.optim.SGD(
        model.parameters(), learning_rate, momentum=0.9, weight_decay=weight_decay, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, epochs * steps)
    model.train()
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(x)).split(batch_size):
            loss = recipe.loss(model, x[batch], y[batch], smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        if on_epoch is not None:
            on_epoch(epoch + 1, total / len(x))
    model.eval()
