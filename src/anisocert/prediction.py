"""Answers of the smoothed classifier, without a region."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anisocert.arguments import as_network, expect_kinds
from anisocert.bounds import Plan, binomial_test
from anisocert.certificate import ABSTAIN
from anisocert.engine import Classifier, Network, Numerics, Query, Stage, all_votes
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.models import Coded
from anisocert.optimize import Cascade, Fixed, Method
from anisocert.smoothing import Smoothing


def predict(
    model: Classifier | Network,
    x: Tensor | ArrayLike,
    *,
    smoothing: Smoothing,
    method: Fixed | Cascade | None = None,
    plan: Plan | None = None,
    num_classes: int = 10,
    ids: Sequence[int] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    numerics: Numerics | None = None,
    model_id: str | None = None,
) -> NDArray[np.int64]:
    """The smoothed classifier's answers, or -1 where it abstains (Cohen et al. 2019, PREDICT).

    plan.n votes per input; abstains unless a two-sided binomial test of the two leading classes rejects equality at
    plan.alpha, so a wrong answer has probability at most alpha over noise that x does not depend on (see `certify`).
    A cascade has plan.n votes under each code that is asked: see `Cascade.answers`.

    Args:
        model: as for `certify`, like everything that is not described here.
        x: `b x *shape`.
        smoothing: the noise, the same for every input; of a cascade the largest, as for `certify`.
        method: `Fixed()`, the default, or `Cascade()` for a `Coded`. For other methods, ask a `System`.
        plan: only its n and alpha are used.
        num_classes: how many scores the model gives.
        ids: one distinct number per input, which selects its noise. Default: 0, 1, ...
        seed: of all noise.
        device: where the model runs.
        numerics: those that the certificates were made with: others make it a different classifier.
        model_id: stands for the model in hashes.

    Returns:
        The classes, `b`; -1 for an abstention.
    """
    expect_kinds(smoothing=smoothing, method=method, plan=plan, numerics=numerics)
    query = Query.of(as_network(model, num_classes, device, numerics, model_id), smoothing, x, ids, seed)
    plan, codes = plan or Plan(), _expect_one_classifier(query.network, method)
    (method or Fixed()).check(query.network.model, smoothing, plan, query.shape)
    if binomial_test(plan.n, plan.n) > plan.alpha / codes:
        warnings.warn(
            f"expected more votes for alpha = {plan.alpha}, got n = {plan.n}: even if all agree, every input abstains",
            AnisocertWarning,
            stacklevel=2,
        )
    if isinstance(method, Cascade):
        answers = method.answers(query, plan)
        query.network.expect_no_state()
        return answers
    scales = smoothing.scales(Fixed().choose(query, plan))
    counts = all_votes(query, scales, Stage.PREDICT, [plan.n])
    query.network.expect_no_state()
    ranked = np.sort(counts, 1)
    first, second = ranked[:, -1], ranked[:, -2]
    return np.where(binomial_test(first, first + second) <= plan.alpha, counts.argmax(1), ABSTAIN)


def _expect_one_classifier(network: Network, method: Method | None) -> int:
    """How many codes may be asked about an input; an error unless the method is one whose answers votes can give."""
    coded = network.model if isinstance(network.model, Coded) else None
    if not isinstance(method, Cascade | Fixed | None) or (coded is not None and not isinstance(method, Cascade)):
        wanted = "no method or Fixed()" if coded is None else "method=ac.Cascade() for a model with a codebook"
        got = "none" if method is None else method.name
        raise ArgumentError(f"expected {wanted}, got {got}: ask ac.System for what other methods answer")
    return 1 if coded is None else len(coded.order)
