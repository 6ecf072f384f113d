"""The small runs that tests/evaluate makes by hand, for the tables that only the experiment has; and the benchmarks."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

_spec = importlib.util.spec_from_file_location("made_by_hand", Path(__file__).parents[1] / "evaluate" / "conftest.py")
_made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_made)
results, run, columns = _made.results, _made.run, _made.columns


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
