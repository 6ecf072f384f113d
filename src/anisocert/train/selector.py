"""What a selector learns from: training inputs, each labelled with the code that certifies most there."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.data import Dataset
from anisocert.data.dataset import as_float
from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.models import Codebook, Coded
from anisocert.smoothing import Smoothing
from anisocert.train.cohen import Cohen

Worth = Literal["radius", "volume"]
AT_ONCE = 1000  # inputs
FLOOR = 0.25  # of the mean cost: what is known of easy inputs is not forgotten
TIE = 1e-3  # what a share of right votes is worth where no code certifies anything


@dataclass(frozen=True)
class Selector(Cohen):
    """Cross-entropy on noisy inputs whose labels are codes; what a wrong code costs is how often an input occurs."""

    name = "selector"
    mixtures = False


def code_values(
    network: Network, data: Dataset, codebook: Codebook, noise: type[Smoothing], plan: Plan, worth: Worth = "radius",
    votes: int = 96, seed: int = 0,
) -> NDArray[np.float64]:  # fmt: skip
    """What the plan would certify about each input with each code, for its true class: `n x k`; from few votes.

    worth: of a region, its radius or its proxy radius.
    """
    found = np.zeros((len(data), len(codebook)))
    thetas = Coded(torch.nn.Identity(), torch.nn.Identity(), codebook).thetas(data.shape).to(network.device)
    for first in range(0, len(data), AT_ONCE):
        at = np.arange(first, min(first + AT_ONCE, len(data)))
        x, y = as_float(np.asarray(data.pixels[at])), data.y[at]
        for k, theta in enumerate(thetas):
            query = Query.of(network, noise.of(codebook.codes[k]), x, data.ids[at].tolist(), seed)
            scales = query.smoothing.scales(theta.expand(len(at), *theta.shape))
            counts = all_votes(query, scales, Stage.PILOT, [votes])
            right = counts[np.arange(len(at)), y]
            counts[np.arange(len(at)), y] = -1
            # one vote more than was counted, for nobody: few votes must not promise what n unanimous ones would give
            gap = noise.gap(*plan.projected(right, counts.max(1), np.full(len(at), votes + 1), network.num_classes))
            size = theta.min() if worth == "radius" else theta.log().mean().exp()
            found[at, k] = gap * float(size) + TIE * float(size) * right / votes
    return found


def selector_data(data: Dataset, values: NDArray[np.float64], seed: int = 0) -> Dataset:
    """As many examples, drawn by what a wrong code would cost there, with the best code as their label.

    values: of `code_values`. A wrong code costs the best value less the mean of the others.
    """
    best, others = values.max(1), values.shape[1] - 1
    cost = best - (values.sum(1) - best) / others
    weight = cost + FLOOR * cost.mean() if cost.mean() > 0 else np.ones(len(cost))
    # Evenly spaced places on a line on which each example, in random order, has its weight: it occurs as many times, or
    # one more or less.
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data))
    ends, places = np.cumsum(weight[order]) / weight.sum(), (np.arange(len(data)) + rng.random()) / len(data)
    drawn = order[np.minimum(np.searchsorted(ends, places, side="right"), len(data) - 1)]
    return replace(
        data, pixels=data.pixels[drawn], y=values.argmax(1)[drawn].astype(np.int64), ids=np.arange(len(data)),
        num_classes=values.shape[1], class_names=(),
    )  # fmt: skip
