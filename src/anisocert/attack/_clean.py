"""The clean inputs of a run, and what it promises about each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN
from anisocert.data.dataset import UNLABELLED
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.runs import StoredRun

Inputs = Callable[[int], NDArray[np.float32] | None]


@dataclass(frozen=True, eq=False)
class Clean:
    """Some inputs of a run: m of them. x: `m x *shape`.

    promised: `m`, the class of the region that the run promises, -1 without one; regions: the regions. radius: `m`, of
    the largest ball inside, where the promised class is the label, else -1. errors: `m`, the probability that the
    certificate is wrong.
    """

    ids: list[int]
    labels: NDArray[np.int64]
    x: NDArray[np.float32]
    promised: NDArray[np.int64]
    regions: list[Region | None]
    radius: NDArray[np.float64]
    errors: NDArray[np.float64]

    @classmethod
    def of(cls, run: StoredRun, ids: Sequence[int], inputs: Inputs) -> "Clean":
        """The examples with these ids. After a memory, if that binds the run: then the promise is the memory's."""
        rows = [run.row(number) for number in ids]
        if any(row.get("label") in (None, UNLABELLED) for row in rows):
            raise ArgumentError(
                f"expected a run with the label of every input, got {run.folder}, which lacks some: certify data that "
                "has them, as y"
            )
        arrays = [inputs(number) for number in ids]
        x = [array for array in arrays if array is not None]
        if len(x) < len(ids):
            raise ArgumentError(f"expected the inputs of {run.folder}, got none for some of its ids")
        region_of = run.region_after_memory if run.bound_by_memory else run.region
        regions = [region_of(number, array) for number, array in zip(ids, x, strict=True)]
        promised = [run.promised(number) for number in ids]
        if any(region is None and prediction != ABSTAIN for region, prediction in zip(regions, promised, strict=True)):
            raise ArgumentError(f"expected the theta of every certified input of {run.folder}, got none for some")
        labels = np.array([row["label"] for row in rows], np.int64)
        size = "memory_radius" if run.bound_by_memory else "radius"
        right = np.array(promised) == labels
        return cls(
            list(ids), labels, np.stack(x), np.array(promised, np.int64), regions,
            np.where(right, np.array([row[size] for row in rows], np.float64), -1.0),
            np.array([row["alpha"] for row in rows], np.float64),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ids)
