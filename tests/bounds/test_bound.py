"""A bound is one class: nothing else has to know about it."""

from dataclasses import asdict, replace

import pytest
import torch

import anisocert as ac
from anisocert.bounds import BOUNDS, Bound
from anisocert.bounds.bound import ByName
from anisocert.errors import ArgumentError


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


def test_the_list_of_bounds_can_import_a_file_with_one():
    assert Bound.__module__ != ByName.__module__  # else that file and the list would import each other


def test_a_plan_holds_a_bound_and_calls_it_by_its_name(monkeypatch, half_space):
    monkeypatch.setitem(BOUNDS, "unanimous", Unanimous())
    monkeypatch.delitem(BOUNDS, "unanimous")
    plan = ac.Plan(n=1000, bound=Unanimous())
    assert (plan.bound, asdict(plan)["bound"]) == ("unanimous", "unanimous")
    assert plan == ac.Plan(n=1000, bound=Unanimous()) == ac.Plan(n=1000, bound="unanimous") != ac.Plan(n=1000)
    assert hash(plan) == hash(replace(plan, n=1000))
    assert plan.estimate(999, 1, 1000, 2, 0.001) == (0.0, 1.0)
    x = torch.tensor([[9.0, 0.0]])
    (sure,) = ac.certify(half_space([1.0, 0.0]).eval(), x, num_classes=2, smoothing=ac.Gaussian(1.0), plan=plan)
    assert (sure.bound, sure.prediction) == ("unanimous", 0)


def test_a_bound_has_a_name_that_no_other_has(monkeypatch):
    monkeypatch.setitem(BOUNDS, "unanimous", Unanimous())

    class Other(Unanimous):
        """Under an inherited name."""

    with pytest.raises(ArgumentError, match=r"expected a new name for bound .*Other.*, got 'unanimous', which is"):
        ac.Plan(bound=Other())
    stricter = Unanimous()
    stricter.share = 0.5
    with pytest.raises(ArgumentError, match=r"expected a new name for bound"):
        ac.Plan(bound=stricter)
    monkeypatch.delattr(Unanimous, "name")
    with pytest.raises(ArgumentError, match=r"expected a name in bound Unanimous, .* got None"):
        ac.Plan(bound=Unanimous())
    with pytest.raises(ArgumentError, match="expected bound to be one of"):
        ac.Plan(bound=3)
