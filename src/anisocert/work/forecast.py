"""What a run will cost, from a short measurement on this machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from anisocert.bounds import Plan
from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.optimize import Fixed, Method
from anisocert.optimize.soft import Problem
from anisocert.work._cost import cost_of
from anisocert.work._scheduling import LARGEST_CHUNK, in_groups, next_size
from anisocert.work.job import Job

PROBE_SECONDS = 1.0
STEPS = 4  # of an ascent, at a time
MEASUREMENTS = 2


@dataclass(frozen=True)
class Forecast:
    """evaluations: of the network per input, by purpose. seconds: of all inputs, on one device, for these alone.

    What comes once per run is not in it: imports, loading, compilation, writing, and what a memory does.
    """

    inputs: int
    evaluations: dict[str, int]
    votes_per_second: float
    seconds: float

    @property
    def total(self) -> int:
        """Network evaluations of the run."""
        return self.inputs * sum(self.evaluations.values())


def forecast(job: Job, device: str, inputs: int, on_step: Callable[[], None] = lambda: None) -> Forecast:
    """Count evaluations for a number of inputs, and measure their speed; compiles nothing unless asked to.

    on_step is called after each of MEASUREMENTS.
    """
    c = job.configuration
    plan, method = c.plan(), c.chooser(job.theta)
    network = c.network(job.model, device, replace(c.numerics, compile=bool(c.numerics.compile)))
    rows = network.fit(job.examples.shape, 0)
    purposes = {"with gradients": method.evaluations(plan), "pilot votes": method.pilot_votes(plan, network.model)}
    purposes |= {"votes to select": plan.n0, "votes to certify": plan.n}
    vote = _vote_seconds(job, network, rows)
    on_step()
    gradient = _gradient_seconds(job, network, method, plan)
    on_step()

    def chunk_seconds(count: int) -> float:
        cost = cost_of(method, plan, network, count)
        return cost.votes * vote + cost.gradients * gradient

    return Forecast(inputs, purposes, 1 / vote, _scheduled(chunk_seconds, inputs, method.group(network, plan)))


def _scheduled(chunk_seconds: Callable[[int], float], inputs: int, group: int) -> float:
    """Seconds of a run whose chunks grow as a schedule lets them: each has padding of its own."""
    total, left, size = 0.0, inputs, group
    while left > 0:
        count = min(size, left, LARGEST_CHUNK)
        seconds = chunk_seconds(count)
        total, left = total + seconds, left - count
        size = in_groups(next_size(count, seconds), group)
    return total


def _vote_seconds(job: Job, network: Network, rows: int) -> float:
    """Seconds per vote."""
    query = _query(job, network, 1)
    scales = query.smoothing.scales(Fixed().choose(query, job.configuration.plan()))
    return _measured(lambda: all_votes(query, scales, Stage.PILOT, [rows])) / rows


def _gradient_seconds(job: Job, network: Network, method: Method, plan: Plan) -> float:
    """Seconds per evaluation with its gradient, in steps as the search for theta takes them; 0 where it takes none."""
    if not (ascents := method.ascents(plan)):
        return 0.0
    group = method.group(network, plan)
    query = _query(job, network, group)
    top = torch.zeros(len(query), dtype=torch.int64, device=network.device)
    problem = Problem(query, job.configuration.outputs, top)
    steps = min(STEPS, ascents[-1].iterations) or 1
    return _measured(lambda: ascents[-1].rehearse(problem, steps)) / (steps * group * ascents[-1].samples)


def _query(job: Job, network: Network, inputs: int) -> Query:
    c, chunk = job.configuration, job.chunk(job.ids[:inputs])
    return Query.of(network, c.smoothing(), chunk.x, chunk.ids, c.seed)


def _measured(work: Callable[[], object]) -> float:
    """Seconds per call, over as many calls as fit in a short time, after one that pays the one-off costs."""
    work()
    calls, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < PROBE_SECONDS:
        work()
        calls += 1
    return spent / calls
