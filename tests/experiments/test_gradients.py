"""benchmarks/gradients.py compares the gradients that it times, not those of another form of the network."""

from anisocert.engine import Network


def test_cosines_are_of_the_calls_that_are_timed(script, monkeypatch):
    gradients = script("gradients")
    original, calls, told = Network.differentiable_scores, list[tuple[int, bool]](), list[dict[str, float]]()

    def scores(self, x, one_shape=False):
        calls.append((len(x), one_shape))
        return original(self, x, one_shape)

    monkeypatch.setattr(Network, "differentiable_scores", scores)
    monkeypatch.setattr(gradients, "ready", calls.clear)
    monkeypatch.setattr(gradients, "per_call", lambda call, _: call() or 1.0)
    monkeypatch.setattr(gradients, "tell", told.append)
    gradients.child("small-cnn", "cpu", 1)
    in_steps = {(rows, one_shape) for rows, one_shape in calls if one_shape}
    assert len(in_steps) == 1
    assert [call for call in calls if not call[1]] == [(32, False)] * 2, "none but where a search asks for gradients"
    assert told[0]["cosine"] > 0.9
