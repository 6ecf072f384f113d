"""What a run will cost, from a short measurement on this machine."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from anisocert.engine import Network, Stage, count_votes
from anisocert.optimize import Anisotropic, Isotropic, Method
from anisocert.optimize.ascent import Ascent
from anisocert.runs.job import Job

PROBE_SECONDS = 1.0
PROBE_STEPS = 2


@dataclass(frozen=True)
class Forecast:
    """evaluations: of the network for an input, by purpose. seconds: of the whole run, on one device."""

    inputs: int
    evaluations: dict[str, int]
    votes_per_second: float
    seconds: float

    @property
    def total(self) -> int:
        """Network evaluations of the run."""
        return self.inputs * sum(self.evaluations.values())


def forecast(job: Job, device: str) -> Forecast:
    """Count evaluations and measure their speed. Nothing is compiled for it, unless that was asked for."""
    c = job.configuration
    plan, method, smoothing = c.plan(), c.how(job.theta), c.smoothing()
    assert c.num_classes is not None
    network = Network(job.model, c.num_classes, device, replace(c.numerics, compile=bool(c.numerics.compile)))
    rows = network.fit(job.examples.shape, 0)
    votes = method.pilot_votes(plan) + plan.n0 + plan.n
    ids, inputs = job.ids[: method.group(rows)], len(job.ids)
    x = torch.from_numpy(job.chunk(ids).x).to(network.device)
    theta = torch.full((len(x), *(1 for _ in x.shape[1:])), c.sigma, device=network.device)

    def count() -> None:
        scales = smoothing.scales(theta[:1])
        list(count_votes(network, smoothing, x[:1], scales, ids[:1], seed=c.seed, stage=Stage.PILOT, looks=[rows]))

    vote_seconds = _measured(count) / rows
    seconds = inputs * votes * vote_seconds
    if method.evaluations:
        group, samples = method.group(rows), _samples(method)
        probe = Ascent(PROBE_STEPS, samples, 0.01, adam=True, logarithmic=True)

        def climb() -> None:
            probe.climb(
                network, smoothing, x, ids, theta, lambda gap, theta: gap * theta.flatten(1).amin(1),
                lower=theta, upper=math.inf, seed=c.seed, outputs=c.outputs,
            )  # fmt: skip

        groups = math.ceil(inputs / group)
        seconds += groups * method.evaluations * _measured(climb) / (PROBE_STEPS * samples)
    purposes = {"with gradients": method.evaluations, "pilot votes": method.pilot_votes(plan)}
    purposes |= {"votes to select": plan.n0, "votes to certify": plan.n}
    return Forecast(inputs, purposes, 1 / vote_seconds, seconds)


def _samples(method: Method) -> int:
    """Noisy copies of an input a step."""
    if isinstance(method, Anisotropic):
        return method.climb.samples
    assert isinstance(method, Isotropic)
    return method.samples


def _measured(work: Callable[[], None]) -> float:
    """Seconds a call, over as many calls as a short while allows, after one that pays for what happens once."""
    work()
    calls, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < PROBE_SECONDS:
        work()
        calls += 1
    return spent / calls
