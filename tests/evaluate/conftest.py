"""Small results and runs, made by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anisocert.evaluate import OWN, Results
from anisocert.runs import StoredRun


def made(radius: list[float], correct: list[bool] | None = None, **changes: Any) -> Results:
    """Results with label 1 everywhere; wrong answers are 2, abstentions (radius None) -1."""
    right = correct or [True] * len(radius)
    size = np.array([0.0 if r is None else r for r in radius])
    fields = {
        "label": "fixed", "method": "fixed", "norm": "l2", "sigma": 0.25, "stage": "before",
        "protects": OWN, "alpha": 0.001,
        "ids": np.arange(len(radius)), "labels": np.ones(len(radius), np.int64),
        "prediction": np.array([-1 if r is None else 1 if c else 2 for r, c in zip(radius, right, strict=True)]),
        "radius": size, "proxy_radius": size * 2,
    }  # fmt: skip
    return Results(**(fields | changes))


def stored(rows: dict[str, list[Any]], folder: str = "runs/one", **description: Any) -> StoredRun:
    return StoredRun(Path(folder), description, pa.table(rows))


def table(method: str, radius: list[float], sigma: float = 0.25, memory: list[float] | None = None, **extra: Any):
    """The columns of a run that answers label 1 everywhere; with a memory, its radii after it."""
    n = len(radius)
    columns: dict[str, list[Any]] = {
        "idx": list(range(n)), "label": [1] * n, "prediction": [1] * n, "correct": [True] * n, "radius": radius,
        "proxy_radius": [2 * r for r in radius], "method": [method] * n, "norm": ["l2"] * n, "sigma": [sigma] * n,
        "alpha": [0.001] * n, "seconds": [0.5] * n, "votes": [100] * n,
    }  # fmt: skip
    if memory is not None:
        columns |= {
            "memory_prediction": [1 if r > 0 else -1 for r in memory], "memory_radius": memory,
            "memory_proxy_radius": [2 * r for r in memory],
            "memory_note": ["abstained" if m == 0 else "kept" if m == r else "shrunk"
                            for m, r in zip(memory, radius, strict=True)],
        }  # fmt: skip
    return columns | extra


@pytest.fixture
def results() -> Callable[..., Results]:
    return made


@pytest.fixture
def run() -> Callable[..., StoredRun]:
    return stored


@pytest.fixture
def columns() -> Callable[..., dict[str, list[Any]]]:
    return table
