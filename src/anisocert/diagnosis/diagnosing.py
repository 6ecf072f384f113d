"""The diagnosis: measurements, what they mean, and what to do."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anisocert.data import evenly
from anisocert.diagnosis import _words as words
from anisocert.diagnosis.capture import Captured, capture
from anisocert.diagnosis.capture import words as capture_words
from anisocert.diagnosis.commands import Remedy, certifying, remedies
from anisocert.diagnosis.looking import look, rounding_doubt
from anisocert.diagnosis.probing import GRID, TINY, Level, Sample, matching_noise, probe, span
from anisocert.engine import Network, Query
from anisocert.engine.devices import device_kind
from anisocert.errors import ArgumentError, MissingExtraError, ModelError
from anisocert.optimize.soft import Problem
from anisocert.runs.loading import load_model
from anisocert.smoothing import Gaussian, usual
from anisocert.work import Job
from anisocert.work.doubts import beyond_denoiser
from anisocert.work.forecast import forecast

COMPARED = ("fixed", "isotropic", "anisotropic")
ALMOST = 0.8  # of the best certified accuracy: more noise certifies farther, and fewer
FARTHER = 1.25
USUAL_NOISE = 0.25  # of the field, for inputs in [0, 1]
ONE_CLASS = 2.0  # times the share of the most frequent label: the network answers that class whatever it sees


@dataclass(frozen=True)
class Cost:
    """What certifying one input by a method costs, at the speed that was measured here."""

    method: str
    evaluations: int
    seconds: float


@dataclass(frozen=True)
class Recommendation:
    """What to certify with. useful: whether it is expected to certify anything worth the name; else no command."""

    sigma: float
    norm: str
    method: str
    useful: bool
    command: str


@dataclass(frozen=True)
class Diagnosis:
    """What was measured on a sample of inputs, and what follows from it.

    clean: without noise. levels: of both norms, or of the one asked for. matches: noise, of the first norm, that the
    network seems to have been trained on; trained: what its file says, None where it says nothing. findings: in words.
    captured: how surely its selector names codes, if it has one. remedies: how it would stand noise that it does not,
    none where it was trained on noise, or nothing could be trained for it.
    """

    model: str
    data: str
    inputs: int
    votes: int
    chance: float
    clean: Level
    levels: tuple[Level, ...]
    matches: float
    trained: float | None
    costs: tuple[Cost, ...]
    votes_per_second: float
    recommendation: Recommendation
    findings: tuple[str, ...]
    captured: Captured | None = None
    remedies: tuple[Remedy, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain data, for JSON."""
        return asdict(self)


def diagnose(
    job: Job,
    device: str,
    *,
    inputs: int = 64,
    votes: int = 100,
    sigmas: Sequence[float] | None = None,
    norms: Sequence[str] = ("l2", "l1"),
    on_step: Callable[[], None] = lambda: None,
) -> Diagnosis:
    """Look at a network on a small sample of a job's examples, evenly spaced.

    on_step: called after each level, and after each method's cost.
    """
    c = job.configuration
    assert c.num_classes is not None
    if not job.examples.labelled:
        raise ArgumentError(
            f"expected labels, to tell right answers from wrong ones, in {c.data}, got none: add them as y "
            "(anisocert certify needs none)"
        )
    chunk = job.chunk([job.ids[i] for i in evenly(len(job.ids), inputs)])
    network = c.network(job.model, device, replace(c.numerics, compile=False))
    sample = Sample(torch.from_numpy(chunk.x).to(network.device), np.array(chunk.y), chunk.ids, c.seed, c.outputs)
    scale = span(chunk.x)
    stated = job.metadata.get("sigma")
    trained = float(stated) if isinstance(stated, int | float) else None
    grid = sigmas or sorted({*(float(f"{scale * sigma:.3g}") for sigma in GRID), *([trained] if trained else [])})
    (clean,) = probe(network, sample, "l2", [TINY * scale], c.plan(), votes=1)
    on_step()
    levels = list[Level]()
    for level in chain.from_iterable(probe(network, sample, norm, grid, c.plan(), votes) for norm in norms):
        levels.append(level)
        on_step()
    matches = matching_noise(clean, [level for level in levels if level.norm == norms[0]])
    most = float(np.bincount(sample.y).max() / len(sample.y))
    best = _best(levels, most)
    shaped = _with_gradients(job, network, sample)
    method = "isotropic" if shaped is None else "anisotropic"
    answers = look(job, usual(best.norm).of(best.sigma))
    here = replace(job, configuration=replace(c, device=device_kind([device])))  # whose precision will vote
    doubt = ("" if answers is None else answers.doubt) or rounding_doubt(here)
    costs, speed = ((), 0.0) if doubt else _costs(job, shaped, device, best, on_step)
    useful = best.certified > 0.5 * max(clean.smoothed, 0.01) and best.largest_class <= max(ONE_CLASS * most, 0.5)
    useful = useful and not doubt
    command = certifying(job, best.sigma, best.norm, method) if useful else ""
    recommended = Recommendation(best.sigma, best.norm, method, useful, command)
    diagnosis = Diagnosis(
        c.model, job.examples.name, len(sample.y), votes, 1 / c.num_classes, clean, tuple(levels), matches, trained,
        costs, speed, recommended, (), capture(network, sample, norms[0], c.plan(), votes, c.seed),
    )  # fmt: skip
    lost = words.lost(diagnosis)
    if shaped is not None and lost and not doubt and not words.trained_on_noise(diagnosis, scale):
        sigma = max(lost[0].sigma, USUAL_NOISE * scale)
        diagnosis = replace(diagnosis, remedies=tuple(remedies(job, sigma, lost[0].norm, method)))
    selector = () if diagnosis.captured is None else capture_words(diagnosis.captured)
    cautions = beyond_denoiser(job.model, job.metadata, best.norm, best.sigma) if useful else []
    findings = words.findings(diagnosis, c.plan(), most, scale, doubt, images=len(job.examples.shape) == 3)
    return replace(diagnosis, findings=(*findings, *(f"At that noise {caution}." for caution in cautions), *selector))


def _best(levels: Sequence[Level], most: float) -> Level:
    """The level of largest mean radius among those that certify nearly as many as any.

    An l2 ball contains the l1 ball of its radius: l1 is worth having only where it reaches clearly farther.
    """
    fair = [level for level in levels if level.largest_class <= max(ONE_CLASS * most, 0.5)] or list(levels)
    chosen = []
    for norm in dict.fromkeys(level.norm for level in fair):
        same = [level for level in fair if level.norm == norm]
        enough = ALMOST * max(level.certified for level in same)
        chosen.append(max((level for level in same if level.certified >= enough), key=lambda level: level.mean_radius))
    return max(chosen, key=lambda level: level.mean_radius * (FARTHER if level.norm == "l2" else 1.0))


def _with_gradients(job: Job, network: Network, sample: Sample) -> Job | None:
    """The job as a method with gradients runs it: ONNX networks are then converted; None where there are none."""
    c = replace(job.configuration, method="anisotropic", codebook=None, selector=None)
    try:
        model = load_model(c)[0] if Path(c.model).suffix == ".onnx" else job.model
        if model is not job.model:
            network = c.network(model, network.device, network.numerics)
        Problem(Query(network, Gaussian(1.0), sample.x[:1], sample.ids[:1], c.seed), c.outputs).require_gradients()
    except (ModelError, MissingExtraError):
        return None
    return replace(job, model=model)


def _costs(
    job: Job, shaped: Job | None, device: str, best: Level, on_step: Callable[[], None]
) -> tuple[tuple[Cost, ...], float]:
    """What each method costs per input, when many are certified. shaped: the job of the last one."""
    costs, speed = [], 0.0
    for method in COMPARED:
        method_job = shaped if method == "anisotropic" else job
        if method_job is not None:
            configuration = replace(
                job.configuration, method=method, norm=best.norm, sigma=best.sigma, codebook=None, selector=None,  # type: ignore[arg-type]
            )  # fmt: skip
            estimate = forecast(replace(method_job, configuration=configuration), device, 100)
            costs.append(Cost(method, estimate.total // estimate.inputs, estimate.seconds / estimate.inputs))
            speed = speed or estimate.votes_per_second
        on_step()
    return tuple(costs), speed
