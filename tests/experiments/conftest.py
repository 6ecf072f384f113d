"""The small runs that tests/evaluate makes by hand, for the tables that only the experiment has."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("made_by_hand", Path(__file__).parents[1] / "evaluate" / "conftest.py")
_made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_made)
results, run, columns = _made.results, _made.run, _made.columns
