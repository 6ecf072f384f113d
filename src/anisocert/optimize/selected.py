"""A smoothed selector names a code for each input: noise that depends on the input, and still one classifier.

The answer at z is that of the classifier smoothed with theta_k, where k is the code that the selector, smoothed itself,
names at z. Around x, where k is named with a share of at least p under noise of sigma, it is named within
sigma * gap(p, 1 - p); and there the classifier smoothed with theta_k is one classifier. (Dual Randomized
Smoothing.) It may be a network of its own for each code. Nothing is remembered, so it makes no difference who asks, or
in which order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Network, Query, Stage, all_votes
from anisocert.errors import ArgumentError
from anisocert.models import Coded
from anisocert.optimize.base import Method, checked_theta, same_for_all, scalar_theta
from anisocert.optimize.choice import Capture, Choice, Floats
from anisocert.smoothing import Smoothing, cap

SHARE = 0.5
"""Part of alpha that the selector's votes get: both radii depend on theirs by its logarithm alone."""


@dataclass(frozen=True)
class Selected(Method):
    """The code that a smoothed selector names. The model is a `Coded`, the noise that of its codebook's sigma.

    The selector has as many votes as the class: the plan's n0 to name a code, its n to prove that it is named.
    """

    name = "selected"

    def pilot_votes(self, plan: Plan) -> int:
        """See Method."""
        return plan.n0 + plan.n

    def check(self, model: Classifier, smoothing: Smoothing, plan: Plan, shape: tuple[int, ...] | None = None) -> None:
        """See Method."""
        super().check(model, smoothing, plan, shape)
        found, _ = coded(self, model, smoothing)
        if shape is not None:
            found.thetas(shape)

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        return self._capture(query, plan, np.full(len(query), plan.alpha))[0]

    def decide(self, query: Query, plan: Plan, alphas: Floats) -> Sequence[Choice]:
        """See Method: each network is asked about the inputs whose code is proven to be its own."""
        theta, capture = self._capture(query, plan, alphas)
        proven, count = capture.cap > 0, len(coded(self, query.network.model, query.smoothing)[0].networks)
        asked = []
        for k in range(count):
            kept = np.flatnonzero(proven & ((count == 1) | (np.array(capture.codes) == str(k)))).tolist()
            asked.append(Choice.of(replace(query, network=voter(query.network, k)), theta, capture, kept))
        return asked

    def _capture(self, query: Query, plan: Plan, alphas: Floats) -> tuple[Tensor, Capture]:
        (model, own), noise = coded(self, query.network.model, query.smoothing), query.smoothing
        selector = query.network.part("selector", own, len(model.codes))
        asked = Query(selector, noise, query.x, query.ids, query.seed)
        scales = noise.scales(same_for_all(noise.theta, query.x))
        code = all_votes(asked, scales, Stage.NAME, [plan.n0]).argmax(1)
        top = all_votes(asked, scales, Stage.CAPTURE, [plan.n])[np.arange(len(query)), code]
        spent, sigma = SHARE * alphas, float(noise.theta)
        far = cap(type(noise), top, plan.n, spent, sigma)
        capture = Capture([str(k) for k in code], top, plan.n, spent, np.full(len(query), sigma), far)
        theta = model.thetas(query.shape)[torch.from_numpy(code).to(model.codes.device)]
        return checked_theta(theta, query.x), capture


def voter(network: Network, code: int) -> Network:
    """The one that votes under a code: of a `Coded` with a network per code that code's, else the network itself."""
    if not isinstance(network.model, Coded) or len(network.model.networks) == 1 or code == network.model.order[0]:
        return network  # whose scores these are
    return network.part(f"network {code}", network.model.networks[code], network.num_classes)


def expect_coded(method: Method, model: Classifier) -> Coded:
    """The model, for a method that needs a codebook."""
    if not isinstance(model, Coded):
        raise ArgumentError(
            f"expected a model with a codebook for {method.name}, as in ac.Coded(classifier, selector, codebook), got "
            f"{type(model).__name__}"
        )
    return model


def coded(method: Method, given: Classifier, smoothing: Smoothing) -> tuple[Coded, nn.Module]:
    """The model and its selector, for a method that needs them and the noise that they were made for."""
    model = expect_coded(method, given)
    if model.selector is None:
        raise ArgumentError(f"expected a model with a selector for {method.name}, got none: use Cascade()")
    if scalar_theta(method, smoothing) != model.sigma:
        raise ArgumentError(
            f"expected the noise of the codebook's selector, {model.sigma:g}, for {method.name}, got "
            f"{float(smoothing.theta):g}"
        )
    return model, model.selector
