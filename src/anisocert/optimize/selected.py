"""A smoothed selector names a code for each input: noise that depends on the input, and still one classifier.

The answer at z is that of the classifier smoothed with theta_k, where k is the code that the selector, smoothed itself,
names at z. Around x, where k is named with a share of at least p under noise of sigma, it is named within
sigma * gap(p, 1 - p); and there the classifier smoothed with theta_k is one classifier. (SPEC 10; Dual Randomized
Smoothing.) Nothing is remembered, so it makes no difference who asks, or in which order.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Network, Query, Stage, all_votes
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

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        return self._capture(query, plan, np.full(len(query), plan.alpha))[0]

    def decide(self, query: Query, plan: Plan, alphas: Floats) -> Choice:
        """See Method."""
        return Choice.of(query, *self._capture(query, plan, alphas))

    def _capture(self, query: Query, plan: Plan, alphas: Floats) -> tuple[Tensor, Capture]:
        model, noise = coded(self, query.network, query.smoothing), query.smoothing
        selector = query.network.part("selector", model.selector, len(model.codes))
        asked = Query(selector, noise, query.x, query.ids, query.seed)
        scales = noise.scales(same_for_all(noise.theta, query.x))
        code = all_votes(asked, scales, Stage.NAME, [plan.n0]).argmax(1)
        top = all_votes(asked, scales, Stage.CAPTURE, [plan.n])[np.arange(len(query)), code]
        selector.expect_no_state()
        spent, sigma = SHARE * alphas, float(noise.theta)
        capture = Capture(code, top, plan.n, spent, sigma, cap(type(noise), top, plan.n, spent, sigma))
        theta = model.thetas(query.shape)[torch.from_numpy(code).to(model.codes.device)]
        return checked_theta(theta, query.x), capture


def coded(method: Method, network: Network, smoothing: Smoothing) -> Coded:
    """The model of a network, for a method that needs a codebook and the noise that it was made for."""
    if not isinstance(network.model, Coded):
        raise ArgumentError(
            f"expected a model with a codebook for {method.name}, as in ac.Coded(classifier, selector, codebook), got "
            f"{type(network.model).__name__}"
        )
    if scalar_theta(method, smoothing) != network.model.sigma:
        raise ArgumentError(
            f"expected the noise of the codebook's selector, {network.model.sigma:g}, for {method.name}, got "
            f"{float(smoothing.theta):g}"
        )
    return network.model
