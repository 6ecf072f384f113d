import numpy as np
import pytest

from anisocert import Gaussian, Plan
from anisocert.engine import Judge


def judge(plan: Plan, inputs: int = 1, classes: int = 3, theta: float = 1.0) -> Judge:
    each = np.full(inputs, plan.alpha)
    return Judge(plan, Gaussian(1.0), classes, np.zeros(inputs, np.int64), np.full(inputs, theta), each)


def look(plan: Plan, votes: int) -> int:
    return [look.n for look in plan.looks].index(votes)


def ask(judge: Judge, at: int, *counts: list[int]) -> list[bool]:
    every = np.array(counts)
    return judge(np.arange(len(counts)), np.full(len(counts), at), every).tolist()


def test_fixed_plan_stops_at_its_end_with_the_bounds_of_all_votes():
    plan = Plan(n=1000)
    one = judge(plan)
    assert ask(one, 0, [900, 60, 40]) == [True]
    assert (one.p_a[0], one.p_b[0]) == plan.estimate(900, 60, 1000, 3, plan.alpha)
    assert one.gap[0] == Gaussian(1.0).gap(one.p_a[0], one.p_b[0])
    assert (one.bound_k[0], one.bound_n[0], one.runner_up[0]) == (900, 1000, 60)


def test_two_class_bound_takes_the_largest_other_class():
    plan = Plan(n=1000, bound="two-class")
    one = judge(plan)
    ask(one, 0, [500, 100, 400])
    assert one.runner_up[0] == 400
    assert one.p_b[0] == plan.estimate(500, 400, 1000, 3, plan.alpha)[1]


def test_gives_up_without_hope_and_goes_on_with_hope():
    plan = Plan(n=100_000, early_abstain=True)
    one = judge(plan, 2)
    assert ask(one, look(plan, 1024), [300, 400, 324], [540, 300, 184]) == [True, False]


def test_an_early_look_of_early_abstain_certifies_nothing():
    plan = Plan(n=100_000, early_abstain=True)
    one = judge(plan)
    assert ask(one, 0, [32, 0, 0]) == [False]
    assert one.gap[0] == 0


@pytest.mark.parametrize("stop", ["betting", "checkpoints"])
def test_target_radius_stops_once_reached(stop):
    plan = Plan(n=100_000, stop=stop, target_radius=0.5)
    one, far = judge(plan, theta=1.0), judge(plan, theta=0.1)
    at = len(plan.looks) // 2
    votes = plan.looks[at].n
    assert ask(one, at, [votes - 10, 10, 0]) == [True]
    assert one.gap[0] >= 0.5
    assert ask(far, at, [votes - 10, 10, 0]) == [True]  # a gap of 5 is out of reach: no hope


def test_keeps_the_best_look():
    plan = Plan(n=10_000, stop="betting")
    one = judge(plan)
    at = look(plan, 32)
    ask(one, at, [32, 0, 0])
    best, k, n = one.gap[0], one.bound_k[0], one.bound_n[0]
    ask(one, at + 1, [33, 7, 0])
    assert (one.gap[0], one.bound_k[0], one.bound_n[0]) == (best, k, n)


def test_an_abstention_reports_the_latest_look():
    plan = Plan(n=10_000, stop="betting")
    one = judge(plan)
    ask(one, 0, [10, 12, 10])
    ask(one, 1, [12, 18, 10])
    assert one.gap[0] == 0
    assert (one.bound_k[0], one.bound_n[0]) == (12, plan.looks[1].n)


def test_a_recount_forgets_what_was_counted_before():
    """After running out of memory an input is counted again from its start, perhaps by other kernels."""
    plan = Plan(n=10_000, stop="betting")
    one = judge(plan)
    ask(one, 0, [32, 0, 0])
    assert one.gap[0] > 0
    ask(one, 0, [16, 16, 0])
    assert one.gap[0] == 0
    assert one.bound_k[0] == 16


def test_sequential_plan_stops_within_its_tolerance():
    plan = Plan(n=100_000, stop="checkpoints", tolerance=0.05)
    assert ask(judge(plan), 1, [9000, 1000, 0]) == [True]  # 1.0 % from what all votes would give
    assert ask(judge(plan), 1, [5300, 4700, 0]) == [False]
