"""A memory's answers as columns of a run, and the paper's worst-case rule, which needs no memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anisocert.certificate import Certificate
from anisocert.geometry import disjoint
from anisocert.memory._index import Index
from anisocert.memory.policy import KEPT, abstained

COLUMNS = ("memory_prediction", "memory_radius", "memory_proxy_radius", "memory_note")


def columns(answer: Certificate) -> dict[str, Any]:
    """The memory columns of one row."""
    return {name: getattr(answer, name.removeprefix("memory_")) for name in COLUMNS}


def worst_case(certificates: Sequence[Certificate]) -> list[Certificate]:
    """The paper's reporting rule over a finished run: where regions of two classes meet, both inputs abstain.

    The answer does not depend on the order. It needs all inputs beforehand, so it is a way to report, not to answer.
    """
    answers: list[Certificate] = []
    meets: dict[int, int] = {}
    index: Index | None = None
    for place, certificate in enumerate(certificates):
        region, own = certificate.region, certificate.prediction
        if region is None:
            continue
        index = index or Index(region.shape, region.norm)
        for row in index.meeting(region, own, index.near(region.center, region.enclosing_radius, own)):
            other = index.entries(np.array([row]))[0]
            earlier = certificates[other].region
            if earlier is not None and not disjoint(earlier, region):
                meets[place], meets[other] = other, place
        index.append(place, own, region)
    for place, certificate in enumerate(certificates):
        if place in meets:
            reason = f"its region meets that of input {certificates[meets[place]].id}, which has another class"
            answers.append(abstained(certificate, reason))
        else:
            certified = certificate.region is not None
            answers.append(replace(certificate, note=KEPT) if certified else abstained(certificate, certificate.reason))
    return answers
