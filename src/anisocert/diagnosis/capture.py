"""How surely a selector names its codes around a sample of inputs: where it is unsure, inputs abstain."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anisocert.bounds import Plan
from anisocert.diagnosis.probing import Sample
from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.evaluate import percent
from anisocert.models import Coded
from anisocert.optimize.base import same_for_all
from anisocert.optimize.coded import SHARE
from anisocert.smoothing import cap, usual


@dataclass(frozen=True)
class Captured:
    """named: share of the inputs for which each code is named most. unproven: share without a proven code.

    share: of the votes for the code that is named, in the median input. reach: how far it would be proven there.
    """

    sigma: float
    named: tuple[float, ...]
    unproven: float
    share: float
    reach: float


def capture(network: Network, sample: Sample, norm: str, plan: Plan, votes: int, seed: int) -> Captured | None:
    """From `votes` noisy copies of each input, and what the plan's n would prove at these shares; None if not coded."""
    model = network.model
    if not isinstance(model, Coded) or model.selector is None:
        return None
    noise = usual(norm).of(model.sigma)
    query = Query(network.part("selector", model.selector, len(model.codes)), noise, sample.x, sample.ids, seed)
    counts = all_votes(query, noise.scales(same_for_all(noise.theta, sample.x)), Stage.NAME, [votes])
    top, code = counts.max(1), counts.argmax(1)
    # one vote unseen, as in Plan.projected
    expected = np.floor(top / (votes + 1) * plan.n).astype(np.int64)
    reach = cap(type(noise), expected, plan.n, SHARE * plan.alpha, model.sigma)
    named = np.bincount(code, minlength=len(model.codes)) / len(code)
    middle = len(code) // 2
    return Captured(
        model.sigma, tuple(named.tolist()), float((reach <= 0).mean()), float(np.sort(top)[middle] / votes),
        float(np.sort(reach)[middle]),
    )  # fmt: skip


def words(found: Captured) -> Iterator[str]:
    """What was found, in sentences."""
    shares = ", ".join(f"{k}: {percent(share, digits=0)}%" for k, share in enumerate(found.named))
    yield f"Under its noise of {found.sigma:g} the selector names codes for these shares of the inputs: {shares}."
    yield (
        f"In the median input {percent(found.share)}% of its votes name one code, which would be proven within "
        f"{found.reach:.3f}: with --method selected no region reaches farther. "
        f"For {percent(found.unproven, True, digits=0)}% of the inputs no code would be proven, and they abstain."
    )
