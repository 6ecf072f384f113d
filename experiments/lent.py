"""How much a theta that was found for one input speaks for that input's class: it is lent to all others.

    python experiments/lent.py RUN

Smoothed answers of all inputs of the run's data, by few votes each, under each of some of its thetas and under flat
noise of the same mean: how many are right, and how many of the inputs of other classes are given the class that theta
was certified for. The second line is for the tenth of these thetas that have the largest regions.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anisocert.data import evenly, load
from anisocert.engine.told import under
from anisocert.runs import StoredRun, read_run
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import noise_like


def lent(run: StoredRun, x: Tensor, y: Tensor, thetas: int, votes: int) -> NDArray[np.float32]:
    """`thetas x 2 x 2`: shares of right answers and of the certified class elsewhere; under theta, then flat noise."""
    model = run.module()
    torch.manual_seed(0)
    shares = []
    for row in _spread(run, thetas):
        theta, own = torch.from_numpy(np.array(run.thetas[row["idx"]])), row["prediction"]
        noises = [run.noise.of(scale.numpy()) for scale in (theta, theta.mean().expand_as(theta))]
        answers = [_answers(model, x, noise, votes) for noise in noises]
        shares.append([((a == y).float().mean(), (a[y != own] == own).float().mean()) for a in answers])
    return np.array(shares)


def _spread(run: StoredRun, count: int) -> list[dict[str, Any]]:
    """Certified rows, smallest regions first, evenly from all."""
    rows = sorted((row for row in run.rows if row["prediction"] >= 0), key=lambda row: row["proxy_radius"])
    return [rows[i] for i in evenly(len(rows), count)]


@torch.no_grad()
def _answers(model: nn.Module, x: Tensor, noise: Smoothing, votes: int) -> Tensor:
    scores = under(noise.scale(x), model)
    counts = torch.zeros(len(x), scores(x[:1]).shape[1])
    for _ in range(votes):
        counts[torch.arange(len(x)), scores(x + noise_like(x, noise)).argmax(1)] += 1
    return counts.argmax(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--thetas", type=int, default=40)
    parser.add_argument("--votes", type=int, default=16)
    args = parser.parse_args()
    run = read_run(args.run)
    data = load(run.place("data"), "test")
    shares = lent(run, torch.from_numpy(data.x), torch.from_numpy(data.y), args.thetas, args.votes)
    for name, some in (("all", shares), ("largest", shares[-max(1, len(shares) // 10) :])):
        said = [f"right {right:.1f} %, its class elsewhere {own:.1f} %" for right, own in 100 * some.mean(0)]
        print(f"{name:8} {said[0]}; flat noise: {said[1]}")
