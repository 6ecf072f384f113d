"""A finished run through a memory, and the paper's worst-case rule, which needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from anisocert.certificate import Certificate
from anisocert.geometry import disjoint
from anisocert.memory.index import Index
from anisocert.memory.memory import Memory
from anisocert.memory.policy import KEPT, abstained

# Certificates that share a synchronisation with the disk.
_BATCH: Final = 64


def through(
    memory: Memory, certificates: Iterable[Certificate], on_done: Callable[[int], None] = lambda _: None
) -> list[dict[str, Any]]:
    """What the memory answers to certificates in their order, as the memory columns of a run's rows.

    on_done is told how many were admitted, a batch at a time. What was admitted before an error stays in the memory:
    passing all of them again gives the same answers to those, while one that abstained may meanwhile lie in the region
    of a later one.
    """
    rows = []
    proposals = list(certificates)
    for start in range(0, len(proposals), _BATCH):
        answers = memory.admit_all(proposals[start : start + _BATCH])
        rows += [columns(answer) for answer in answers]
        on_done(len(answers))
    return rows


def columns(answer: Certificate) -> dict[str, Any]:
    """The memory columns of one row."""
    return {
        "memory_prediction": answer.prediction,
        "memory_radius": answer.radius,
        "memory_proxy_radius": answer.proxy_radius,
        "memory_note": answer.note,
    }


def worst_case(certificates: Sequence[Certificate]) -> list[Certificate]:
    """The paper's reporting rule over a finished run: where regions of two classes meet, both inputs abstain.

    The answer does not depend on the order. As it needs all inputs beforehand, it is a way to report, not to answer.
    """
    asked: list[Certificate] = []
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
            reason = f"its region meets that of input {certificates[meets[place]].id}, which is of another class"
            asked.append(abstained(certificate, reason))
        else:
            known = certificate.region is not None
            asked.append(replace(certificate, note=KEPT) if known else abstained(certificate, certificate.reason))
    return asked
