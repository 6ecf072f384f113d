"""A bound is one class: nothing else has to know about it."""

import torch

import anisocert as ac
from anisocert.bounds import BOUNDS, Bound


class Unanimous(Bound):
    """Says something only where all votes agree."""

    name = "unanimous"

    def estimate(self, top, runner_up, n, num_classes, alpha, family):
        p_a, p_b = BOUNDS["one-vs-rest"].estimate(top, runner_up, n, num_classes, alpha, family)
        return (top == n) * p_a, 1 - (top == n) * (1 - p_b)


def test_a_registered_bound_is_used_by_its_name(monkeypatch, half_space):
    monkeypatch.setitem(BOUNDS, Unanimous.name, Unanimous())
    x, network = torch.tensor([[9.0, 0.0], [0.5, 0.0]]), half_space([1.0, 0.0]).eval()
    (sure, unsure), usual = (
        ac.certify(network, x, num_classes=2, smoothing=ac.Gaussian(1.0), plan=ac.Plan(n=1000, bound=bound))
        for bound in ("unanimous", "one-vs-rest")
    )
    assert (sure.bound, sure.gap) == ("unanimous", usual[0].gap)
    assert unsure.prediction == -1
    assert usual[1].prediction == 0
