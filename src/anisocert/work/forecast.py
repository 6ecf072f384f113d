"""What a run will cost, from a short measurement on this machine."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.optimize import Fixed
from anisocert.optimize.ascent import ROWS_SHARE
from anisocert.work.job import Job

PROBE_SECONDS = 1.0


@dataclass(frozen=True)
class Forecast:
    """evaluations: of the network per input, by purpose. seconds: of all inputs, on one device."""

    inputs: int
    evaluations: dict[str, int]
    votes_per_second: float
    seconds: float

    @property
    def total(self) -> int:
        """Network evaluations of the run."""
        return self.inputs * sum(self.evaluations.values())


def forecast(job: Job, device: str, inputs: int) -> Forecast:
    """Count evaluations for a number of inputs, and measure their speed; compiles nothing unless asked to."""
    c = job.configuration
    plan, method = c.plan(), c.chooser(job.theta)
    assert c.num_classes is not None
    numerics = replace(c.numerics, compile=bool(c.numerics.compile))
    network = Network(job.model, c.num_classes, device, numerics, c.model_id)
    rows = network.fit(job.examples.shape, 0)
    purposes = {"with gradients": method.evaluations(plan), "pilot votes": method.pilot_votes(plan)}
    purposes |= {"votes to select": plan.n0, "votes to certify": plan.n}
    vote_seconds = _vote_seconds(job, network, rows)
    seconds = inputs * sum(list(purposes.values())[1:]) * vote_seconds
    if steps := method.evaluations(plan):
        group = method.group(network, plan)  # the last group is filled up
        seconds += math.ceil(inputs / group) * group * steps * _gradient_seconds(job, network, rows)
    return Forecast(inputs, purposes, 1 / vote_seconds, seconds)


def _vote_seconds(job: Job, network: Network, rows: int) -> float:
    """Seconds per vote."""
    c, chunk = job.configuration, job.chunk(job.ids[:1])
    query = Query.of(network, c.smoothing(), chunk.x, chunk.ids, c.seed)
    scales = query.smoothing.scales(Fixed().choose(query, c.plan()))
    return _measured(lambda: all_votes(query, scales, Stage.PILOT, [rows])) / rows


def _gradient_seconds(job: Job, network: Network, rows: int) -> float:
    """Seconds per evaluation with its gradient, in batches as the search for theta takes them."""
    noisy = torch.rand(max(1, rows // ROWS_SHARE), *job.examples.shape, device=network.device).requires_grad_(True)

    def step() -> None:
        scores = network.differentiable_scores(noisy).softmax(1)
        (slope,) = torch.autograd.grad(scores[:, 0].sum(), [noisy])
        slope.sum().item()  # waits for the device

    return _measured(step) / len(noisy)


def _measured(work: Callable[[], object]) -> float:
    """Seconds per call, over as many calls as fit in a short time, after one that pays the one-off costs."""
    work()
    calls, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < PROBE_SECONDS:
        work()
        calls += 1
    return spent / calls
