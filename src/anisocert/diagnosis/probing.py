"""A network under a range of noise levels, on a small sample."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Network, Query, Stage, all_votes, top_and_runner_up
from anisocert.optimize.soft import Outputs
from anisocert.smoothing import usual

GRID = (0.03, 0.06, 0.09, 0.12, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
"""Noise levels for inputs in [0, 1]; for others, times the range of their values."""

TINY = 1e-6  # noise that is none, for inputs in [0, 1]: a network that is told its level may divide by it
COPIES = 32  # of each input, to see how sure the network may be
SHARPNESS = np.exp(np.linspace(-2.0, 1.2, 33))
MOSTLY = 0.5  # share of the inputs
CALIBRATED = 0.93  # share of the best sharpness that counts as the same, in such a sample


def span(x: NDArray[np.float32]) -> float:
    """What noise levels are in proportion to: 1 for inputs in [0, 1], else the range of their values.

    Of rows, whose features have units of their own, the median feature's range. x: `b x *shape`.
    """
    if float(x.min()) >= 0 and float(x.max()) <= 1:
        return 1.0
    features = x.reshape(len(x), -1) if x.ndim == 2 else x.reshape(-1, 1)
    return float(np.median(np.ptp(features, 0))) or float(np.ptp(x)) or 1.0


@dataclass(frozen=True)
class Level:
    """How the network copes with noise of one strength. Shares are of the sample's inputs.

    accuracy: of single noisy copies. smoothed: of the class with most votes. certified: what the plan would certify
    with the right class, if votes fell as in the sample; abstained: what it would not certify at all. mean_radius: over
    all inputs, 0 where wrong or abstained. farthest: what the plan certifies if all votes agree. largest_class: share
    of the copies that got the most frequent answer. sharpness: the factor of the scores with which they are likeliest
    to give the labels: 1 where the network is calibrated, less where it is overconfident.
    """

    norm: str
    sigma: float
    accuracy: float
    smoothed: float
    certified: float
    abstained: float
    mean_radius: float
    median_radius: float
    farthest: float
    largest_class: float
    sharpness: float


@dataclass(frozen=True, eq=False)
class Sample:
    """Some inputs, and what to look at them with. x: `b x *shape`; y: `b`. outputs: what the network returns."""

    x: Tensor
    y: NDArray[np.int64]
    ids: list[int]
    seed: int = 0
    outputs: Outputs = "logits"


def probe(
    network: Network, sample: Sample, norm: str, sigmas: Sequence[float], plan: Plan, votes: int = 100
) -> Iterator[Level]:
    """How the network copes with each noise level, from `votes` noisy copies per input."""
    for sigma in sigmas:
        query = Query(network, usual(norm).of(sigma), sample.x, sample.ids, sample.seed)
        theta = sample.x.new_full((len(sample.x), *(1 for _ in sample.x.shape[1:])), sigma)
        scales = query.smoothing.scales(theta)
        counts = all_votes(query, scales, Stage.PILOT, [votes])
        yield _level(query, sigma, counts, sample.y, plan, _sharpness(query, scales, sample))


def _level(
    query: Query, sigma: float, counts: NDArray[np.int64], y: NDArray[np.int64], plan: Plan, sharpness: float
) -> Level:
    smoothing, num_classes = query.smoothing, query.network.num_classes
    rows, votes = np.arange(len(y)), int(counts[0].sum())
    top = counts.argmax(1)
    gap = smoothing.gap(*plan.projected(*top_and_runner_up(counts, top), votes, num_classes, unseen=1))
    radius = np.where(top == y, sigma * gap, 0.0)
    return Level(
        norm=f"l{smoothing.norm}", sigma=float(sigma), accuracy=float(counts[rows, y].mean() / votes),
        smoothed=float((top == y).mean()), certified=float((radius > 0).mean()), abstained=float((gap <= 0).mean()),
        mean_radius=float(radius.mean()), median_radius=float(np.sort(radius)[len(radius) // 2]),
        farthest=sigma * float(smoothing.gap(*plan.best_case(num_classes))),
        largest_class=float(counts.sum(0).max() / counts.sum()), sharpness=sharpness,
    )  # fmt: skip


def _sharpness(query: Query, scales: Tensor, sample: Sample) -> float:
    """The factor of the scores that gives a few noisy copies their labels with the largest likelihood."""
    network, rows = query.network, query.network.fit(query.shape, 0)
    source = query.noise(len(query))
    source.open(range(len(query)), query.streams(Stage.PILOT), query.x, scales)
    slots = np.arange(len(query)).repeat(COPIES)
    copies = np.tile(np.arange(COPIES), len(query))
    padding = -len(slots) % rows  # one batch shape, as for votes
    slots, copies = np.append(slots, np.full(padding, -1)), np.append(copies, np.zeros(padding, np.int64))
    batches = [
        network.scores(source.noisy(slots[i : i + rows], copies[i : i + rows])).float()
        for i in range(0, len(slots), rows)
    ]
    scores = torch.cat(batches)[: len(query) * COPIES]
    if sample.outputs == "probabilities":
        scores = scores.clamp_min(1e-12).log()
    labels = torch.from_numpy(sample.y.repeat(COPIES)).to(scores.device)
    loss = [float(torch.nn.functional.cross_entropy(float(factor) * scores, labels)) for factor in SHARPNESS]
    return float(SHARPNESS[int(np.argmin(loss))])


def matching_noise(clean: Level, levels: Sequence[Level]) -> float:
    """The strongest noise for which the network is calibrated, or as nearly so as it ever is, and still answers.

    Training calibrates a network for the noise it is trained on. Beyond that noise its accuracy
    falls but its confidence does not. One that is never sure of anything is calibrated everywhere: noise under which
    most inputs would not be certified is none that it copes with. levels: of one norm, in rising order.
    """
    answered = itertools.takewhile(lambda level: level.abstained < MOSTLY, levels)
    candidates = [(0.0, clean.sharpness)] + [(level.sigma, level.sharpness) for level in answered]
    threshold = CALIBRATED * min(1.0, max(sharpness for _, sharpness in candidates))
    return max(sigma for sigma, sharpness in candidates if sharpness >= threshold)
