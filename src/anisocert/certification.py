"""Certification of a batch of inputs: choose theta, select the class, estimate its share, give the region."""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anisocert.arguments import as_network, expect_kinds
from anisocert.bounds import Plan
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.engine import Classifier, Judge, Network, Numerics, OnVotes, Query, Stage, Tally, all_votes, count_votes
from anisocert.errors import AnisocertWarning
from anisocert.models.normalize import out_of_units
from anisocert.optimize import Choice, Event, Fixed, Method
from anisocert.smoothing import Smoothing

Floats = NDArray[np.float64]


def certify(
    model: Classifier | Network,
    x: Tensor | ArrayLike,
    *,
    smoothing: Smoothing,
    method: Method | None = None,
    plan: Plan | None = None,
    num_classes: int = 10,
    ids: Sequence[int] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    numerics: Numerics | None = None,
    model_id: str | None = None,
    on_votes: OnVotes | None = None,
) -> list[Certificate]:
    """Certify a batch of inputs; the certificates come in the order of the inputs.

    alpha holds for inputs that were chosen without knowledge of the noise drawn for them. A second call with the same
    seed and ids reuses that noise, so that someone who saw the first answers can adapt x to it, even if the seed is
    secret: give every query an id that was never used, as `System` does.

    Args:
        model: maps `b x *shape` to `b x num_classes` scores, in evaluation mode, normalisation inside: an `nn.Module`,
            any function (then with `model_id`), or a `Network`.
        x: `b x *shape`, floats in the model's own units that float32 holds exactly, as the model sees them
            (`img / 255.0` is float64: round it to float32 first).
        smoothing: the noise, `Gaussian(sigma)` for l2 regions or `Uniform(lam)` for l1; ideally the one that the model
            was trained with.
        method: how theta, the noise level of each value, is chosen. Default: `Fixed()`, the same for every input: a
            certificate then holds for everyone as it stands, and any function will do as the model. `Isotropic()` and
            `Anisotropic()` find larger regions, which are about one input's own classifier until they go through a
            `Memory`. (The command line's default is anisotropic; it says whose promise each number is.)
        plan: votes, alpha, bound, and when to stop. Default: `Plan()`, 100,000 votes at alpha = 0.001.
        num_classes: how many scores the model gives.
        ids: one distinct number per input, which selects its noise. Default: 0, 1, ...
        seed: of all noise; the same seed, ids and device kind give the same certificates.
        device: where the model runs. Default: where its weights are.
        numerics: precision, compilation, rows per call and grid. Default: what suits the device.
        model_id: stands for the model in hashes, where it is a function or cannot be hashed.
        on_votes: called with the number of votes that each network call counted.

    Returns:
        One `Certificate` per input. An input that could not be certified has prediction -1 and says why in `reason`.

    Raises:
        ArgumentError: an argument is invalid.
        ModelError: the model does something that no certificate can rest on.
    """
    expect_kinds(smoothing=smoothing, method=method, plan=plan, numerics=numerics, on_votes=on_votes)
    query = Query.of(as_network(model, num_classes, device, numerics, model_id), smoothing, x, ids, seed)
    pairs = timed_certificates(query, method or Fixed(), plan or Plan(), on_votes=on_votes)
    return [certificate for _, certificate in sorted(pairs, key=lambda pair: pair[0])]


def certificates(
    query: Query, method: Method, plan: Plan, alphas: Floats | None = None, on_votes: OnVotes | None = None
) -> Iterator[tuple[int, Certificate]]:
    """Yield (position, certificate) of each input, as it is done.

    alphas: `b`, if they differ between inputs; they must not depend on any vote. The plan's then only guides effort.
    """
    method.check(query.network.model, query.smoothing, plan, query.shape)
    method.warn(query.network.model, query.smoothing, plan, query.network.num_classes, query.network.grid)
    if reasons := out_of_units(query.network.model, query.x.cpu().numpy()):
        warnings.warn(next(iter(reasons.values())), AnisocertWarning, stacklevel=2)
    query.network.fit(query.shape, len(query) * method.votes(plan, query.network.model))

    alphas = np.full(len(query), plan.alpha) if alphas is None else alphas
    choices = method.decide(query, plan, alphas)  # from noise of its own
    for i in sorted({*range(len(query))}.difference(*(choice.positions for choice in choices))):
        yield i, _uncaptured(query, i, method, plan, choices[0], alphas)
    for choice in choices:
        if choice.positions:
            yield from _voted(query, method, plan, choice, alphas, on_votes)

    query.network.expect_no_state()


def _voted(
    query: Query, method: Method, plan: Plan, choice: Choice, alphas: Floats, on_votes: OnVotes | None
) -> Iterator[tuple[int, Certificate]]:
    """Select, estimate, region, for the inputs of a choice."""
    part, scales, spent = choice.query, choice.scales, 0.0 if choice.capture is None else choice.capture.alpha
    event = choice.settle(all_votes(part, scales, Stage.SELECT, [plan.n0], on_votes=on_votes))
    smallest = event.theta.flatten(1).amin(1).double().cpu().numpy()
    warn_if_out_of_reach(query.smoothing, method.judged(plan), query.network.num_classes, float(smallest.max()))
    left = (alphas - spent)[list(choice.positions)]
    judge = Judge(plan, query.smoothing, query.network.num_classes, event.top, smallest, left)
    looks = [look.n for look in plan.looks]
    for tally in count_votes(part, scales, Stage.ESTIMATE, looks, event.judged(judge), on_votes):
        i = choice.positions[tally.position]
        yield i, _certificate(query, i, method, choice, event, judge, tally)  # bound, gap, region


def timed_certificates(
    query: Query, method: Method, plan: Plan, alphas: Floats | None = None, on_votes: OnVotes | None = None
) -> Iterator[tuple[int, Certificate]]:
    """`certificates`, each with its seconds: an equal share up to the first votes, then in proportion to its votes."""
    started, before, counted = time.perf_counter(), 0.0, 0

    def count(votes: int) -> None:
        nonlocal before, counted
        before = before or time.perf_counter() - started
        counted += votes
        if on_votes is not None:
            on_votes(votes)

    for position, certificate in certificates(query, method, plan, alphas, count):
        done = time.perf_counter()
        before = before if counted else done - started
        counting = (done - started - before) * (plan.n0 + certificate.votes) / max(counted, 1)
        yield position, replace(certificate, seconds=before / len(query) + counting)
        started += time.perf_counter() - done  # the caller's own time is not counted


def unanswered(query: Query, position: int, method: Method, plan: Plan, reason: str) -> Certificate:
    """An abstention about one input of a query, from no votes."""
    network, smoothing = query.network, query.smoothing
    return Certificate(
        id=int(query.ids[position]), prediction=ABSTAIN, gap=0.0, region=None, theta=np.asarray(smoothing.theta),
        p_a=0.0, p_b=1.0, top_votes=0, runner_up_votes=0, votes=0, bound_k=0, bound_n=0, alpha=plan.alpha,
        num_classes=network.num_classes, bound=plan.bound, stop=plan.stop, method=method.name, norm=smoothing.norm,
        noise=smoothing.name, seed=int(query.seed), model_hash=network.hash, seconds=0.0, reason=reason,
        x=query.x[position].cpu().numpy(),
    )  # fmt: skip


def _certificate(
    query: Query, i: int, method: Method, choice: Choice, event: Event, judge: Judge, tally: Tally
) -> Certificate:
    """The certificate of input i, the tallied one of the choice, from its best bound."""
    at, gap, merged = tally.position, float(judge.gap[tally.position]), event.seen(tally)
    label = int(event.label[at])
    theta = event.theta[at].cpu().numpy().copy()  # inputs may share one theta; no certificate may change another's
    theta.setflags(write=False)
    evidence = event.evidence(tally) if choice.capture is None else choice.capture.evidence(i)
    certificate = replace(
        unanswered(query, i, method, judge.plan, judge.reason(merged, label)), gap=gap,
        theta=theta.reshape(()) if theta.size == 1 else theta, p_a=float(judge.p_a[at]), p_b=float(judge.p_b[at]),
        top_votes=int(merged.counts[event.top[at]]), runner_up_votes=int(judge.runner_up[at]), votes=tally.votes,
        bound_k=int(judge.bound_k[at]), bound_n=int(judge.bound_n[at]),
        alpha=float(judge.alpha[at]) + evidence.get("selector_alpha", 0.0), **evidence,
    )  # fmt: skip
    if gap <= 0:
        return certificate
    region = query.smoothing.region(query.x[i].cpu().numpy(), theta, gap, certificate.cap)
    return replace(certificate, prediction=label, region=region, x=None)


def _uncaptured(query: Query, i: int, method: Method, plan: Plan, choice: Choice, alphas: Floats) -> Certificate:
    """The abstention of an input whose code the selector does not prove."""
    assert choice.capture is not None
    reason, evidence = choice.capture.reason(i), choice.capture.evidence(i)
    return replace(unanswered(query, i, method, plan, reason), alpha=float(alphas[i]), **evidence)


def warn_if_out_of_reach(smoothing: Smoothing, plan: Plan, num_classes: int, theta: float) -> None:
    """Warn, before any vote, if no input can reach the plan's target radius. theta: what gives the largest ball."""
    farthest = float(smoothing.gap(*plan.best_case(num_classes))) * theta
    if plan.target_radius is not None and farthest < plan.target_radius:
        warnings.warn(
            f"expected target_radius <= {farthest:.6g}, what {plan.n} unanimous votes certify here, "
            f"got {plan.target_radius}: no input will reach it",
            AnisocertWarning,
            stacklevel=3,
        )
