import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from anisocert.bounds import Plan
from anisocert.bounds import _forecast as forecast
from anisocert.errors import ArgumentError

PLANS = [
    Plan(n=1_000, early_abstain=True),
    Plan(n=1_000, stop="checkpoints", bound="two-class"),
    Plan(n=1_000, stop="betting"),
    Plan(n=1_000, stop="betting", bound="two-class"),
]
plans = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.bound}, {plan.stop}")


def tallies(plan: Plan, shares: list[float], runs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    at = np.array([look.n for look in plan.looks])
    counts = np.random.default_rng(9).multinomial(np.diff(at, prepend=0), shares, (runs, at.size)).cumsum(1)
    return counts[..., 0], counts[..., 1:].max(-1), at


@plans
@pytest.mark.parametrize("shares", [[0.56, 0.3, 0.14], [0.42, 0.29, 0.29], [0.95, 0.05, 0]])
def test_the_last_look_does_not_surpass_the_optimistic_bounds(plan: Plan, shares: list[float]) -> None:
    top, runner_up, at = tallies(plan, shares, 500)
    optimistic_a, optimistic_b = plan.optimistic(top, runner_up, at, 3)
    p_a, p_b = plan.estimate(top[:, -1:], runner_up[:, -1:], plan.n, 3, plan.looks[-1].alpha)
    assert (p_a <= optimistic_a).all()
    assert (p_b >= optimistic_b).all()


@plans
def test_an_input_without_hope_is_given_up_early(plan: Plan) -> None:
    top, runner_up, at = tallies(plan, [0.3, 0.5, 0.2], 500)
    p_a, p_b = plan.optimistic(top, runner_up, at, 3)
    hopeless = p_a <= p_b
    assert hopeless[:, at >= plan.n // 2].all()
    if plan.stop != "checkpoints":
        assert hopeless[:, at >= 400].mean() > 0.99


@plans
def test_an_input_near_the_border_is_not_given_up_at_once(plan: Plan) -> None:
    p_a, p_b = plan.optimistic(20, 16, 40, 10)
    assert p_a > p_b


@plans
def test_with_all_votes_in_there_is_nothing_left_to_forecast(plan: Plan) -> None:
    now = plan.estimate([600, 300], [300, 300], 1_000, 10, plan.looks[-1].alpha)
    for ahead in (plan.optimistic, plan.projected):
        p_a, p_b = ahead([600, 300], [300, 300], 1_000, 10)
        assert (p_a == now[0]).all()
        assert (p_b == now[1]).all()


@plans
def test_projected_keeps_the_shares(plan: Plan) -> None:
    assert plan.projected(30, 10, 50, 10) == plan.estimate(600, 200, 1_000, 10, plan.looks[-1].alpha)
    assert plan.projected(30, 10, 49, 10, unseen=1) == plan.projected(30, 10, 50, 10)
    assert plan.projected(50, 0, 50, 10, unseen=1)[0] < plan.projected(50, 0, 50, 10)[0]
    assert plan.projected(2, 1, 3, 10) == plan.estimate(666, 334, 1_000, 10, plan.looks[-1].alpha), "not to our favour"
    p_a, _ = plan.projected([50, 0], 0, 50, 10)
    assert p_a[0] == plan.best_case(10)[0]
    assert p_a[1] == 0


@given(st.integers(1, 1_000), st.data(), st.sampled_from(PLANS), st.integers(2, 1_000))
def test_optimism_is_no_less_than_the_present_shares(votes: int, data: st.DataObject, plan: Plan, classes: int) -> None:
    top = data.draw(st.integers(0, votes))
    runner_up = data.draw(st.integers(0, votes - top))
    best, kept = (f(top, runner_up, votes, classes) for f in (plan.optimistic, plan.projected))
    assert best[0] >= kept[0]
    assert best[1] <= kept[1]
    assert best[0] <= plan.best_case(classes)[0]


@pytest.mark.parametrize("level", [1e-8, 1e-4, 0.05])
def test_luck_beyond_the_likely_most_is_as_rare_as_said(level: float) -> None:
    n, p = np.array([1, 10, 100, 10_000])[:, None], np.array([0.0, 1e-4, 0.02, 0.5, 0.9, 1.0])
    assert (binom.sf(forecast._most(n, p, level), n, p) <= level).all()


def test_more_votes_than_the_plan_has_are_refused() -> None:
    with pytest.raises(
        ArgumentError, match="expected votes <= the plan's n, got votes = 1001 with the plan's n = 1000"
    ):
        PLANS[0].optimistic(5, 5, 1_001, 3)
