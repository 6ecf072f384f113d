import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from anisocert.bounds import Plan, betting, lower, upper
from anisocert.errors import AnisocertWarning, ArgumentError

PLANS = {
    f"{bound}, {stop or 'fixed'}": Plan(n=2_000, alpha=0.05, bound=bound, stop=stop)
    for bound in ("one-vs-rest", "two-class")
    for stop in (None, "checkpoints", "betting")
}


def tallies(plan: Plan, shares: list[float], runs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(top, runner-up) votes `runs x looks` and the number of votes `looks`, for class 0 on top."""
    at = np.array([look.n for look in plan.looks])
    steps = np.random.default_rng(8).multinomial(np.diff(at, prepend=0), shares, (runs, at.size))
    counts = steps.cumsum(1)
    return counts[..., 0], counts[..., 1:].max(-1), at


@pytest.mark.parametrize("shares", [[0.3] + [0.14] * 5, [0.95] + [0.01] * 5, [0.5, 0.5, 0, 0, 0, 0]])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_right_at_all_looks_together(plan: Plan, shares: list[float], within_rate) -> None:
    runs = 1_500
    top, runner_up, at = tallies(plan, shares, runs)
    p_a, p_b = plan.estimate(top, runner_up, at, len(shares), [look.alpha for look in plan.looks])
    wrong = (p_a > shares[0]) | (p_b < max(shares[1:]))
    assert within_rate(wrong.any(1).sum(), runs, plan.alpha)


def test_the_full_alpha_at_every_checkpoint_would_be_wrong(within_rate) -> None:
    plan, runs = PLANS["one-vs-rest, checkpoints"], 10_000
    top, runner_up, at = tallies(plan, [0.7, 0.2, 0.1], runs)
    p_a, _ = plan.estimate(top, runner_up, at, 3, plan.alpha)
    assert not within_rate((p_a > 0.7).any(1).sum(), runs, plan.alpha)
    p_a, _ = plan.estimate(top, runner_up, at, 3, [look.alpha for look in plan.looks])
    assert within_rate((p_a > 0.7).any(1).sum(), runs, plan.alpha)


def test_estimate_uses_the_bound_and_the_family_that_the_plan_names() -> None:
    tally = (600, 250, 1000, 11, 0.01)
    assert Plan().estimate(*tally) == (lower(600, 1000, 0.01), 1 - lower(600, 1000, 0.01))
    assert Plan(stop="betting").estimate(*tally)[0] == betting.lower(600, 1000, 0.01)
    for stop, family in (("checkpoints", (lower, upper)), ("betting", (betting.lower, betting.upper))):
        p_a, p_b = Plan(bound="two-class", stop=stop).estimate(*tally)
        assert p_a == pytest.approx(family[0](600, 1000, 0.009), rel=1e-9)
        assert p_b == pytest.approx(family[1](250, 1000, 0.0001), rel=1e-9)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_estimate_is_vectorised_and_says_nothing_without_alpha(plan: Plan) -> None:
    p_a, p_b = plan.estimate([[600], [700]], 100, 1000, 11, [0.0, 0.01, -1.0])
    assert p_a.shape == p_b.shape == (2, 3)
    assert (p_a[:, [0, 2]] == 0).all()
    assert (p_b[:, [0, 2]] == 1).all()
    assert (p_a[1, 1], p_b[1, 1]) == plan.estimate(700, 100, 1000, 11, 0.01)
    assert plan.estimate(600, 100, 1000, 11, 0.0) == (0.0, 1.0)
    assert all(type(value) is float for value in plan.estimate(600, 100, 1000, 11, 0.01))


def test_what_three_checkpoints_cost_an_input_that_needs_all_votes() -> None:
    share = Plan(stop="checkpoints").looks[-1].alpha

    def cost(k: int) -> float:
        return 1 - norm.ppf(lower(k, 100_000, share)) / norm.ppf(lower(k, 100_000, 1e-3))

    assert max(cost(k) for k in range(56_000, 100_001, 1_000)) < 0.0021
    assert cost(51_000) == pytest.approx(0.02, abs=0.005)


@pytest.mark.parametrize(("share", "sigmas"), [(0.7, 0.25), (0.9, 0.75), (0.99, 1.5)])
def test_betting_decides_a_target_with_far_fewer_votes(share: float, sigmas: float) -> None:
    plan = Plan(target_radius=sigmas)
    at = np.array([look.n for look in plan.looks])
    p_a, _ = plan.estimate((share * at).astype(int), 0, at, 10, plan.alpha)
    assert at[np.argmax(norm.ppf(p_a) >= sigmas)] < 100_000 / 26
    assert p_a[-1] > norm.cdf(sigmas)


def test_a_target_means_betting_unless_checkpoints_were_asked_for() -> None:
    assert Plan(target_radius=0.5).stop == "betting"
    assert Plan(target_radius=0.5, stop="checkpoints").stop == "checkpoints"
    assert Plan().stop is None
    assert [Plan().gives_up, Plan(early_abstain=True).gives_up, Plan(stop="betting").gives_up] == [False, True, True]


def test_a_plan_is_a_frozen_value_that_can_be_written_down() -> None:
    plan = Plan(n0=np.int64(10), n=np.int32(500), alpha=np.float64(0.01), target_radius=1)
    assert plan == Plan(**json.loads(json.dumps(dataclasses.asdict(plan))))
    assert hash(plan) == hash(dataclasses.replace(plan))
    assert (type(plan.n), type(plan.target_radius)) == (int, float)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.n = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "first_n"),
    [
        ({}, 10),
        ({"early_abstain": True}, 10),
        ({"bound": "two-class"}, 11),  # 0.9 alpha
        ({"stop": "checkpoints"}, 11),  # 0.8 alpha
        ({"stop": "betting"}, 12),
        ({"alpha": 0.4}, 2),
    ],
)
def test_says_before_the_work_that_n_can_never_certify(options: dict, first_n: int) -> None:
    with pytest.warns(AnisocertWarning, match=f"expected n >= {first_n} .* got n = {first_n - 1}"):
        Plan(n=first_n - 1, **options).warn_if_hopeless(10)
    Plan(n=first_n, **options).warn_if_hopeless(10)  # warnings are errors in this test suite
    p_a, p_b = Plan(n=first_n, **options).best_case(10)
    assert p_a > 0.5 > p_b == 1 - p_a


@pytest.mark.parametrize("options", [{}, {"stop": "checkpoints"}, {"early_abstain": True}])
def test_an_alpha_for_which_no_number_of_votes_is_enough_is_said_at_once(options: dict) -> None:
    with pytest.warns(AnisocertWarning, match=r"expected more than alpha = 1e-250, .* got n = 100000: even if all"):
        Plan(alpha=1e-250, **options).warn_if_hopeless(10)


def test_best_case_is_the_largest_share_n_votes_can_show() -> None:
    assert Plan().best_case(10)[0] == pytest.approx(0.99993092, abs=5e-9)
    assert Plan(bound="two-class").best_case(2) == Plan().best_case(2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, r"expected n in \[1, \d+\], got 0"),
        ({"n0": 0}, r"expected n0 in \[1, \d+\], got 0"),
        ({"n": 1e5}, r"expected n to be an integer, got 100000.0 \(float\)"),
        ({"n": True}, r"expected n to be an integer, got True \(bool\)"),
        ({"n0": "100"}, r"expected n0 to be an integer, got '100' \(str\)"),
        ({"alpha": 1.5}, r"expected alpha in \(0, 1\), got 1.5"),
        ({"alpha": 0}, r"expected alpha in \(0, 1\), got 0"),
        ({"alpha": math.nan}, "expected alpha to be finite, got nan"),
        ({"alpha": "0.001"}, "expected alpha to be a number, got '0.001'"),
        ({"bound": "goodman"}, r"expected bound to be one of one-vs-rest, two-class, got 'goodman'"),
        ({"stop": "never"}, r"expected stop to be one of checkpoints, betting, got 'never'"),
        ({"target_radius": -1.0}, "expected target_radius > 0, got -1.0"),
        ({"target_radius": math.inf}, "expected target_radius to be finite, got inf"),
        ({"target_radius": True}, "expected target_radius to be a number, got True"),
        ({"early_abstain": 1}, "expected early_abstain to be True or False, got 1"),
        ({"tolerance": 1.0}, r"expected tolerance in \[0, 1\), got 1.0"),
        ({"tolerance": math.nan}, "expected tolerance to be finite, got nan"),
    ],
)
def test_bad_options_are_named(options: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Plan(**options)


@pytest.mark.parametrize(
    ("tally", "message"),
    [
        ((6, 5, 10, 3, 0.1), r"expected top_votes \+ runner_up_votes <= votes, got .* 11 with votes = 10"),
        ((6, 1, 10, 1, 0.1), r"expected num_classes in \[2, \d+\], got 1"),
        ((6, 1, 10, 3, 1.0), "expected alpha below 1, got 1.0"),
        ((6, 1, 10, 3, math.nan), "expected alpha below 1, got nan"),
        ((6.5, 1, 10, 3, 0.1), "expected top_votes to be integers, got 6.5"),
        (([1, 2], 1, [10, 10, 10], 3, 0.1), "expected shapes that broadcast together"),
    ],
)
def test_bad_tallies_are_named(tally: tuple, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Plan().estimate(*tally)
