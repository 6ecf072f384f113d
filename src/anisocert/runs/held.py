"""Certificates that a Python process holds, as a run: whatever measures and shows runs can do so with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anisocert.certificate import Certificate
from anisocert.data import Dataset
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.inputs import expect_labels
from anisocert.memory import Memory, columns
from anisocert.optimize import SAME_FOR_ALL
from anisocert.runs.answers import unbacked
from anisocert.runs.rows import SCHEMA, row
from anisocert.runs.stored import StoredRun
from anisocert.smoothing import GaussianMixture

NOWHERE = Path("(held in memory)")
ONE = ("model_hash", "num_classes", "norm", "noise", "method")  # of certificates that are one run's


@dataclass(frozen=True, eq=False)
class HeldRun(StoredRun):
    """A run of which nothing is on disk. certificates: in order of id, which the rows name `idx`."""

    certificates: tuple[Certificate, ...] = field(kw_only=True, repr=False)

    @cached_property
    def _held(self) -> dict[int, Certificate]:
        return dict(zip(self.column("idx").tolist(), self.certificates, strict=True))

    @cached_property
    def thetas(self) -> Mapping[int, NDArray[np.float32]]:
        """See StoredRun."""
        return {number: certificate.theta for number, certificate in self._held.items()}

    def region(self, number: int, x: NDArray[Any]) -> Region | None:
        """The certificate's own: a memory may have made it smaller than gap and theta give."""
        return self._held[number].region

    def examples(self, ids: Sequence[int] | None = None, whole: bool = True) -> Dataset:
        """Its inputs, which certificates hold."""
        x = np.stack([_input(certificate) for certificate in self.certificates]).astype(np.float32)
        name, y, numbers = str(self.said("data")), self.column("label"), self.column("idx")
        return Dataset(name, x, y, numbers, self.certificates[0].num_classes, mean=(0.0,), std=(1.0,)).subset(ids=ids)


def held(
    certificates: Sequence[Certificate],
    labels: NDArray[np.int64],
    ids: Sequence[int],
    said: dict[str, Any],
    memory: Memory | None = None,
) -> HeldRun:
    """Certificates as a run; an error unless they can be one run's.

    labels, ids: `n`, of each certificate's input. said: `name` of the run, and what certificates do not know: `data`,
    `sigma`. memory: the one that answered, where these are the answers of one.
    """
    first, name = certificates[0], said["name"]
    for attribute in ONE:
        if len(kinds := {getattr(certificate, attribute) for certificate in certificates}) > 1:
            raise ArgumentError(f"expected certificates of one {attribute} in {name}, got {', '.join(map(str, kinds))}")
    if labels.min() < 0:
        raise ArgumentError(f"expected labels from 0 to {first.num_classes - 1} of {name}, got {labels.min()}")
    expect_labels(labels, first.num_classes, name)
    _expect_one_system(certificates, name, memory)
    if first.method == "fixed" and said["sigma"] is not None and first.theta.ndim == 0:
        sigma = float(first.theta)  # of a mixture a mean, which none of its sigmas need be
        if first.noise != GaussianMixture.name and sigma != np.float32(said["sigma"]):
            raise ArgumentError(f"expected the sigma of {name}, {sigma:g}, got {said['sigma']:g}: leave it out")
    order = np.argsort(ids)
    chosen = [certificates[i] for i in order]
    rows = [
        row(certificate, int(label), said["sigma"]) | {"idx": int(number)}
        for certificate, label, number in zip(chosen, labels[order], np.asarray(ids)[order], strict=True)
    ]
    answered, described_memory = bool(first.note), None
    if answered and memory is not None:
        described_memory = {"file": memory.place, "policy": memory.policy, "prefer": memory.prefer}
    described = {
        "data": said["data"], "inputs": len(rows), "sigma": said["sigma"], "model_hash": first.model_hash,
        "memory": described_memory,
    }  # fmt: skip
    table = pa.Table.from_pylist(rows, SCHEMA)
    return HeldRun(NOWHERE / name, described, table, answered=answered, on_disk=False, certificates=tuple(chosen))


def _expect_one_system(certificates: Sequence[Certificate], name: str, memory: Memory | None) -> None:
    """An error unless what is promised is about one system, or about each input's own classifier."""
    first, noted = certificates[0], {bool(certificate.note) for certificate in certificates}
    if len(noted) > 1:
        raise ArgumentError(f"expected certificates before a memory, or the answers of one, got both in {name}")
    if noted == {True}:
        _expect_backed(certificates, name, memory)
        return
    if len({(certificate.id, certificate.seed) for certificate in certificates}) < len(certificates):
        # What may be claimed of all together rests on noise that was drawn separately for each.
        raise ArgumentError(
            f"expected certificates from different noise in {name}, got some with the same id and seed: give inputs "
            "that are certified in several calls ids of their own, as in ac.certify(..., ids=range(100, 200))"
        )
    if first.method in SAME_FOR_ALL and any(not np.array_equal(other.theta, first.theta) for other in certificates):
        raise ArgumentError(
            f"expected one theta in {name}, as method {first.method} is one classifier for all inputs, got several: "
            "evaluate each noise level by itself"
        )


def _expect_backed(certificates: Sequence[Certificate], name: str, memory: Memory | None) -> None:
    """An error unless a memory made these promises."""
    if memory is None:
        raise ArgumentError(
            f"expected memory=..., the one that answered, as {name} has the answers of one (notes such as "
            f"{certificates[0].note!r}), got none; of a system it is system.memory"
        )
    for certificate in certificates:
        for fault in unbacked(memory, columns(certificate), certificate):
            raise ArgumentError(
                f"expected answers of {memory!r} in {name}, got one about input {certificate.id}, but {fault}"
            )


def _input(certificate: Certificate) -> NDArray[Any]:
    """The input that a certificate is about."""
    x = certificate.x if certificate.region is None else certificate.region.center
    if x is None:
        raise ArgumentError(f"certificate {certificate.id}: expected its input in x, as it has no region, got None")
    return x
