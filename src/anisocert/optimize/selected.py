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
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Query, Stage, all_votes
from anisocert.optimize.base import checked_theta, same_for_all
from anisocert.optimize.choice import Capture, Choice, Floats
from anisocert.optimize.coded import SHARE, SelectingMethod, voter
from anisocert.smoothing import cap


@dataclass(frozen=True)
class Selected(SelectingMethod):
    """The noise of the code that a smoothed selector names.

    The model is a `Coded`, and the smoothing has the sigma of its codebook. The selector casts as many votes as the
    classifier: the plan's n0 to name a code, its n to prove it.
    """

    name = "selected"

    def pilot_votes(self, plan: Plan, model: Classifier | None = None) -> int:
        """See Method."""
        return plan.n0 + plan.n

    def judged(self, plan: Plan) -> Plan:
        """See Method."""
        return replace(plan, alpha=(1 - SHARE) * plan.alpha)

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        return self._capture(query, plan, np.full(len(query), plan.alpha))[0]

    def decide(self, query: Query, plan: Plan, alphas: Floats) -> Sequence[Choice]:
        """See Method: each network is asked about the inputs whose code is proven to be its own."""
        theta, capture = self._capture(query, plan, alphas)
        proven, count = capture.cap > 0, len(self.coded(query.network.model, query.smoothing, plan).networks)
        choices = []
        for k in range(count):
            kept = np.flatnonzero(proven & ((count == 1) | (np.array(capture.codes) == str(k)))).tolist()
            choices.append(Choice.of(replace(query, network=voter(query.network, k)), theta, capture, kept))
        return choices

    def _capture(self, query: Query, plan: Plan, alphas: Floats) -> tuple[Tensor, Capture]:
        noise, model = query.smoothing, self.coded(query.network.model, query.smoothing, plan)
        assert model.selector is not None
        selector = query.network.part("selector", model.selector, len(model.codes))
        selector_query = Query(selector, noise, query.x, query.ids, query.seed)
        scales = noise.scales(same_for_all(noise.theta, query.x))
        code = all_votes(selector_query, scales, Stage.NAME, [plan.n0]).argmax(1)
        top = all_votes(selector_query, scales, Stage.CAPTURE, [plan.n])[np.arange(len(query)), code]
        spent, sigma = SHARE * alphas, float(noise.theta)
        caps = cap(type(noise), top, plan.n, spent, sigma)
        capture = Capture([str(k) for k in code], top, plan.n, spent, np.full(len(query), sigma), caps)
        theta = model.thetas(query.shape)[torch.from_numpy(code).to(model.codes.device)]
        return checked_theta(theta, query.x), capture
