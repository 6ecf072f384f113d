"""benchmarks/gradients.py compares the gradients that it times, not those of another form of the network."""

import importlib.util
from pathlib import Path

from anisocert.engine import Network

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gradients.py"


def test_cosines_are_of_the_calls_that_are_timed(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("benchmark_of_gradients", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    original, calls, told = Network.differentiable_scores, list[tuple[int, bool]](), list[dict[str, float]]()

    def scores(self, x, one_shape=False):
        calls.append((len(x), one_shape))
        return original(self, x, one_shape)

    monkeypatch.setattr(Network, "differentiable_scores", scores)
    monkeypatch.setattr(script, "ready", calls.clear)
    monkeypatch.setattr(script, "per_call", lambda call, _: call() or 1.0)
    monkeypatch.setattr(script, "tell", told.append)
    script.child("small-cnn", "cpu", 1)
    in_steps = {(rows, one_shape) for rows, one_shape in calls if one_shape}
    assert len(in_steps) == 1
    assert [call for call in calls if not call[1]] == [(32, False)] * 2, "none but where a search asks for gradients"
    assert told[0]["cosine"] > 0.9
