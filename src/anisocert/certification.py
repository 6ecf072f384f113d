"""Certification of a batch of inputs: choose theta, select the class, estimate its share, give the region."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anisocert.bounds import Plan, binomial_test
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.engine import Classifier, Judge, Network, Numerics, Stage, count_votes
from anisocert.errors import ArgumentError
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

    model: maps `b x *shape` to `b x num_classes` scores, in evaluation mode. x: `b x *shape`, in the model's own
    units. ids: one distinct number an input, by which its noise is drawn (default 0, 1, ...). alpha holds for an input
    that was chosen without knowledge of the seed. on_votes is told how many votes each network call counted.
    """
    network = _network(model, num_classes, device, numerics, model_id)
    inputs, numbers = _inputs(x, ids, network.device)
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
) -> Iterator[tuple[int, Certificate]]:
    """(position, certificate) of each input, as each one is done. x: `b x *shape` on the network's device."""
    plan.warn_if_hopeless(network.num_classes)
    network.fit(tuple(x.shape[1:]), len(x) * (plan.n0 + plan.n))
    clock = time.perf_counter()

    theta = method.choose(network, x, ids, smoothing, plan, seed)
    scales = smoothing.scales(theta)
    top = _select(network, smoothing, x, scales, ids, plan, seed, on_votes)
    judge = Judge(plan, smoothing, network.num_classes, top, theta.flatten(1).amin(1).double().cpu().numpy())
    tallies = count_votes(
        network, smoothing, x, scales, ids,
        seed=seed, stage=Stage.ESTIMATE, looks=[look.n for look in plan.looks], stop=judge, on_votes=on_votes,
    )  # fmt: skip

    shared = (time.perf_counter() - clock) / len(x)
    for tally in tallies:
        i, clock, started = tally.position, time.perf_counter(), clock
        gap = float(judge.gap[i])
        one = theta[i].cpu().numpy()
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
                alpha=plan.alpha,
                num_classes=network.num_classes,
                bound=plan.bound,
                stop=plan.stop,
                method=method.name,
                norm=smoothing.norm,
                seed=seed,
                model_hash=network.hash,
                seconds=shared + clock - started,
                reason=_reason(gap, judge.p_a[i], judge.p_b[i], tally.votes, plan),
            ),
        )


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
    plan.alpha, so a wrong answer has probability at most alpha.
    """
    network = _network(model, num_classes, device, numerics, model_id)
    inputs, numbers = _inputs(x, ids, network.device)
    plan = plan or Plan()
    theta = Fixed().choose(network, inputs, numbers, smoothing, plan, seed)
    tallies = count_votes(
        network, smoothing, inputs, smoothing.scales(theta), numbers, seed=seed, stage=Stage.PREDICT, looks=[plan.n]
    )
    counts = np.stack([tally.counts for tally in sorted(tallies, key=lambda tally: tally.position)])
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


def _reason(gap: float, p_a: float, p_b: float, votes: int, plan: Plan) -> str:
    """Why an input abstains; empty where it is certified."""
    if gap > 0:
        return ""
    early = f"; gave up after {votes} of {plan.n} votes" if votes < plan.n else ""
    return f"the selected class is not proven the most likely: p_a = {p_a:.4f}, p_b = {p_b:.4f}{early}"


def _network(
    model: Classifier | Network,
    num_classes: int,
    device: torch.device | str | None,
    numerics: Numerics | None,
    model_id: str | None,
) -> Network:
    if isinstance(model, Network):
        return model
    return Network(model, num_classes, device, numerics, model_id)


def _inputs(x: Tensor | ArrayLike, ids: Sequence[int] | None, device: torch.device) -> tuple[Tensor, list[int]]:
    """Checked inputs, float32 on the device, and one id each."""
    inputs = torch.as_tensor(x).to(device, torch.float32)
    if inputs.dim() < 2 or len(inputs) == 0:
        raise ArgumentError(f"expected x of shape (inputs, *shape) with at least one input, got {tuple(inputs.shape)}")
    if not bool(inputs.isfinite().all()):
        raise ArgumentError("expected finite x, got NaN or infinity")
    numbers = list(range(len(inputs))) if ids is None else [int(i) for i in ids]
    if len(numbers) != len(inputs):
        raise ArgumentError(f"expected one of ids for each of {len(inputs)} inputs, got {len(numbers)}")
    if len(set(numbers)) != len(numbers):
        raise ArgumentError("expected distinct ids (equal ones would share their noise), got repeated ones")
    return inputs, numbers
