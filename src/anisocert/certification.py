"""Certification of a batch of inputs: choose theta, select the class, estimate its share, give the region."""

import operator
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anisocert.bounds import Plan, binomial_test
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.engine import Classifier, Judge, Network, Numerics, Stage, Stream, Tally, count_votes
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.inputs import exact_float32
from anisocert.optimize import Fixed, Method
from anisocert.smoothing import Smoothing

OnVotes = Callable[[int], None]


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
    """Certificates of a batch of inputs, in their order.

    model: maps `b x *shape` to `b x num_classes` scores, in evaluation mode. x: `b x *shape`, floats in the model's own
    units that float32 holds exactly, as the model sees them (`img / 255.0` is float64: round it to float32 first).
    ids: one distinct number per input, by which its noise is drawn (default 0, 1, ...).
    on_votes is told how many votes each network call counted.

    alpha holds for an input that was chosen without knowledge of the noise drawn for it. A second call with the same
    seed and ids reuses the noise, so that someone who saw the first answers can adapt x to it, even if the seed is
    secret: give every query an id that was never used, as `System` does.
    """
    expect_kinds(smoothing=smoothing, method=method, plan=plan)
    network = as_network(model, num_classes, device, numerics, model_id)
    inputs, numbers = _inputs(x, ids, seed, network.device)
    plan = plan or Plan()
    found = certificates(network, inputs, numbers, smoothing, method or Fixed(), plan, seed, on_votes)
    return [certificate for _, certificate in sorted(found, key=lambda pair: pair[0])]


def certificates(
    network: Network,
    x: Tensor,
    ids: Sequence[int],
    smoothing: Smoothing,
    method: Method,
    plan: Plan,
    seed: int,
    on_votes: OnVotes | None = None,
    alphas: NDArray[np.float64] | None = None,
) -> Iterator[tuple[int, Certificate]]:
    """(position, certificate) of each input, as each one is done. x: `b x *shape` on the network's device.

    alphas: `b`, where inputs have one of their own; they must not depend on any vote. The plan's then only steers.
    """
    plan.warn_if_hopeless(network.num_classes)
    network.fit(tuple(x.shape[1:]), len(x) * (plan.n0 + plan.n + method.pilot_votes(plan)))
    started = time.perf_counter()

    theta = _checked_theta(method.choose(network, x, ids, smoothing, plan, seed), x)
    scales = smoothing.scales(theta)
    smallest = theta.flatten(1).amin(1).double().cpu().numpy()
    _warn_if_out_of_reach(plan, smoothing, network.num_classes, smallest)
    top = _select(network, smoothing, x, scales, ids, plan, seed, on_votes)
    judge = Judge(plan, smoothing, network.num_classes, top, smallest, alphas)
    counted = 0

    def count(votes: int) -> None:
        nonlocal counted
        counted += votes
        if on_votes is not None:
            on_votes(votes)

    tallies = count_votes(
        network, smoothing, x, scales, ids,
        seed=seed, stage=Stage.ESTIMATE, looks=[look.n for look in plan.looks], stop=judge, on_votes=count,
    )  # fmt: skip

    shared = (time.perf_counter() - started) / len(x)
    counting, started = 0.0, time.perf_counter()
    for tally in tallies:
        counting += time.perf_counter() - started
        i, gap = tally.position, float(judge.gap[tally.position])
        one = theta[i].cpu().numpy().copy()  # inputs may share one theta; no certificate may change another's
        one.setflags(write=False)
        yield (
            i,
            Certificate(
                id=int(ids[i]),
                prediction=int(top[i]) if gap > 0 else ABSTAIN,
                gap=gap,
                region=smoothing.region(x[i].cpu().numpy(), one, gap) if gap > 0 else None,
                theta=one.reshape(()) if one.size == 1 else one,
                p_a=float(judge.p_a[i]),
                p_b=float(judge.p_b[i]),
                top_votes=int(tally.counts[top[i]]),
                runner_up_votes=int(judge.runner_up[i]),
                votes=tally.votes,
                bound_k=int(judge.bound_k[i]),
                bound_n=int(judge.bound_n[i]),
                alpha=plan.alpha if alphas is None else float(alphas[i]),
                num_classes=network.num_classes,
                bound=plan.bound,
                stop=plan.stop,
                method=method.name,
                norm=smoothing.norm,
                seed=int(seed),
                model_hash=network.hash,
                seconds=shared + counting * tally.votes / counted,  # many are counted at once: to each its share
                reason=_reason(judge, i, tally, plan),
                x=None if gap > 0 else x[i].cpu().numpy(),
            ),
        )
        started = time.perf_counter()
    network.expect_no_state()


def predict(
    model: Classifier | Network,
    x: Tensor | ArrayLike,
    *,
    smoothing: Smoothing,
    plan: Plan | None = None,
    num_classes: int = 10,
    ids: Sequence[int] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    numerics: Numerics | None = None,
    model_id: str | None = None,
) -> NDArray[np.int64]:
    """The smoothed classifier's answers, -1 where it abstains (Cohen et al. 2019, PREDICT): `b`.

    plan.n votes an input; abstains unless a two-sided binomial test of the two leading classes rejects equality at
    plan.alpha, so a wrong answer has probability at most alpha over noise that x does not depend on (see certify).
    """
    expect_kinds(smoothing=smoothing, plan=plan)
    network = as_network(model, num_classes, device, numerics, model_id)
    inputs, numbers = _inputs(x, ids, seed, network.device)
    plan = plan or Plan()
    if binomial_test(plan.n, plan.n) > plan.alpha:
        warnings.warn(
            f"expected more votes for alpha = {plan.alpha}, got n = {plan.n}: even if all agree, every input abstains",
            AnisocertWarning,
            stacklevel=2,
        )
    theta = Fixed().choose(network, inputs, numbers, smoothing, plan, seed)
    tallies = count_votes(
        network, smoothing, inputs, smoothing.scales(theta), numbers, seed=seed, stage=Stage.PREDICT, looks=[plan.n]
    )
    counts = np.stack([tally.counts for tally in sorted(tallies, key=lambda tally: tally.position)])
    network.expect_no_state()
    ranked = np.sort(counts, 1)
    first, second = ranked[:, -1], ranked[:, -2]
    return np.where(binomial_test(first, first + second) <= plan.alpha, counts.argmax(1), ABSTAIN)


def _select(
    network: Network,
    smoothing: Smoothing,
    x: Tensor,
    scales: Tensor,
    ids: Sequence[int],
    plan: Plan,
    seed: int,
    on_votes: OnVotes | None,
) -> NDArray[np.int64]:
    """The class with most of n0 votes, for each input."""
    top = np.zeros(len(x), np.int64)
    for tally in count_votes(
        network, smoothing, x, scales, ids, seed=seed, stage=Stage.SELECT, looks=[plan.n0], on_votes=on_votes
    ):
        top[tally.position] = tally.counts.argmax()
    return top


def _checked_theta(theta: Tensor, x: Tensor) -> Tensor:
    """A method's theta; an error unless the noise can be drawn with exactly these numbers."""
    shapes = (tuple(x.shape), (len(x), *(1 for _ in x.shape[1:])))
    if theta.dtype != torch.float32 or tuple(theta.shape) not in shapes:
        raise ArgumentError(f"expected a float32 theta of shape {shapes[0]}, got {theta.dtype} {tuple(theta.shape)}")
    if not bool((theta.isfinite() & (theta > 0)).all()):
        raise ArgumentError("expected the method to choose theta positive and finite, got other values")
    return theta.detach()


def _warn_if_out_of_reach(plan: Plan, smoothing: Smoothing, num_classes: int, theta: NDArray[np.float64]) -> None:
    """Say so, before any vote, if no input can reach the plan's target radius. theta: `b`, the smallest of each."""
    if plan.target_radius is None:
        return
    farthest = float(smoothing.gap(*plan.best_case(num_classes))) * float(theta.max())
    if farthest < plan.target_radius:
        warnings.warn(
            f"expected target_radius <= {farthest:.6g}, what {plan.n} votes that all agree certify here, "
            f"got {plan.target_radius}: no input will reach it",
            AnisocertWarning,
            stacklevel=3,
        )


def _reason(judge: Judge, i: int, tally: Tally, plan: Plan) -> str:
    """Why an input abstains; empty where it is certified."""
    if judge.gap[i] > 0:
        return ""
    standing = f"class {judge.top[i]} has {tally.counts[judge.top[i]]} of {tally.votes} votes"
    if tally.votes < plan.n:
        return f"given up before all {plan.n} votes: {standing}, too few to hope for a certificate"
    return f"not proven the most likely: {standing}, p_a = {judge.p_a[i]:.4f}, p_b = {judge.p_b[i]:.4f}"


def expect_kinds(*, smoothing: object, method: object = None, plan: object = None) -> None:
    """An error that names the remedy where an argument is of another kind, such as a number for a noise."""
    for name, value, kind, like in (
        ("smoothing", smoothing, Smoothing, "ac.Gaussian(0.25)"),
        ("method", method, Method | None, "ac.Anisotropic()"),
        ("plan", plan, Plan | None, "ac.Plan(n=100_000)"),
    ):
        if not isinstance(value, kind):
            raise ArgumentError(f"expected {name} as in {name}={like}, got {value!r}")


def as_network(
    model: Classifier | Network,
    num_classes: int,
    device: torch.device | str | None,
    numerics: Numerics | None,
    model_id: str | None,
) -> Network:
    """The model as the engine runs it; one that is so already has its own device, numerics and model_id."""
    if not isinstance(model, Network):
        return Network(model, num_classes, device, numerics, model_id)
    for name, value in (("device", device), ("numerics", numerics), ("model_id", model_id)):
        if value is not None:
            raise ArgumentError(f"expected no {name} beside a Network, which has its own, got {value!r}")
    return model


def _inputs(
    x: Tensor | ArrayLike, ids: Sequence[int] | None, seed: int, device: torch.device
) -> tuple[Tensor, list[int]]:
    """Checked inputs, float32 on the device, and one id each."""
    if isinstance(x, Tensor) and x.dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs = x.detach().to(device, torch.float32)  # these widen exactly, and stay where they are
    else:
        inputs = torch.from_numpy(exact_float32("x", x)).to(device)
    if inputs.dim() < 2 or inputs.numel() == 0:
        raise ArgumentError(f"expected x of shape (inputs, *shape) with at least one input, got {tuple(inputs.shape)}")
    if not bool(inputs.isfinite().all()):
        raise ArgumentError("expected finite x, got NaN or infinity")
    try:
        numbers = list(range(len(inputs))) if ids is None else [operator.index(i) for i in ids]
    except TypeError as error:
        raise ArgumentError(f"expected ids as whole numbers, got {ids!r}") from error
    if len(numbers) != len(inputs):
        raise ArgumentError(f"expected one of ids for each of {len(inputs)} inputs, got {len(numbers)}")
    if len(set(numbers)) != len(numbers):
        raise ArgumentError("expected distinct ids (equal ones would share their noise), got repeated ones")
    for number in numbers:  # a seed or an id that names no stream is found here, not after an hour of votes
        Stream(seed, Stage.ESTIMATE, number)
    return inputs, numbers
