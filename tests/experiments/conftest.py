"""The small runs that are made by hand, for the tables that only the experiment has; and the benchmarks."""

import importlib
import sys
from pathlib import Path

import pytest
from fixtures.results import columns, results, run  # noqa: F401

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """script(name) -> a benchmark; its neighbours' names are free again afterwards."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    names = [path.stem for path in BENCHMARKS.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
