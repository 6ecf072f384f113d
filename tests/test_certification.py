import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

from anisocert import Certificate, Fixed, Gaussian, GaussianMixture, Numerics, Plan, Uniform, certify, predict
from anisocert.bounds import binomial_test
from anisocert.engine import Network, Query, Stage, count_votes
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.optimize import Method

FLOAT32 = Numerics("float32", compile=False)


def many(model: nn.Module, x: list[float], runs: int, smoothing, plan: Plan, classes: int = 2, **options):
    """Certificates of one input under so many ids, which are so many independent runs of the whole procedure."""
    return certify(
        model, torch.tensor([x]).repeat(runs, 1), smoothing=smoothing, plan=plan, num_classes=classes, numerics=FLOAT32,
        **options,
    )  # fmt: skip


# Coverage of the complete procedure: selection, estimation, stopping

PLANS = {
    "fixed": {"n": 200},
    "early_abstain": {"n": 200, "early_abstain": True},
    "checkpoints": {"n": 400, "stop": "checkpoints"},
    "betting": {"n": 300, "stop": "betting"},
    "target_radius": {"n": 300, "target_radius": 0.3},
    "target_radius at checkpoints": {"n": 400, "stop": "checkpoints", "target_radius": 0.3},
}
SHARES = {"one-vs-rest": [0.7, 0.3], "two-class": [0.55, 0.1, 0.35]}


def wrong(found: list[Certificate], shares: list[float]) -> int:
    """How many certificates rest on a false bound of the class they answer."""
    failures = 0
    for c in found:
        if c.prediction >= 0:
            others = max(share for i, share in enumerate(shares) if i != c.prediction)
            failures += c.p_a > shares[c.prediction] or c.p_b < others
    return failures


@pytest.mark.parametrize("bound", SHARES)
@pytest.mark.parametrize("name", PLANS)
def test_failure_rate_of_the_complete_procedure(name, bound, known_shares, within_rate):
    runs, shares = 2000, SHARES[bound]
    plan = Plan(n0=10, alpha=0.05, bound=bound, **PLANS[name])
    found = many(known_shares(shares), [0.0], runs, Gaussian(1.0), plan, len(shares))
    assert sum(c.prediction >= 0 for c in found) > runs / 4, "abstaining would be too easy"
    assert within_rate(wrong(found, shares), runs, plan.alpha)


def test_the_fixed_bound_spends_its_alpha(known_shares):
    """So that the test above could fail: a fixed plan's failure rate is near alpha, not far below."""
    found = many(known_shares([0.7, 0.3]), [0.0], 2000, Gaussian(1.0), Plan(n0=50, alpha=0.05, **PLANS["fixed"]))
    assert wrong(found, [0.7, 0.3]) >= 50


@pytest.mark.parametrize("name", ["fixed", "early_abstain", "checkpoints"])
def test_selection_leaves_no_trace_in_the_estimate(name, known_shares, within_rate):
    """A hundred equal classes: the winner of the selection is a lucky one, and would stay so on the same noise."""
    runs, shares = 1000, [0.01] * 100
    plan = Plan(**({"n0": 200, "alpha": 0.05} | PLANS[name] | {"n": 200}))
    found = many(known_shares(shares), [0.0], runs, Gaussian(1.0), plan, 100)
    assert within_rate(sum(c.p_a > 0.01 for c in found), runs, plan.alpha)


def test_selection_and_estimate_are_independent(known_shares):
    network = Network(known_shares([0.5, 0.5]), 2, numerics=FLOAT32)
    x, ids = torch.zeros(2000, 1), list(range(2000))
    tops = []
    for stage in (Stage.SELECT, Stage.ESTIMATE, Stage.PILOT, Stage.PREDICT):
        found = count_votes(Query(network, Gaussian(1.0), x, ids, 0), torch.ones(2000, 1, 1), stage, [64])
        tops.append([tally.counts[0] for tally in sorted(found, key=lambda tally: tally.position)])
    correlations = np.corrcoef(tops) - np.eye(4)
    assert np.abs(correlations).max() < 4.5 / np.sqrt(2000)


# Half-spaces and thresholds: the true distance is known


def test_half_space_radius_exceeds_the_distance_in_at_most_alpha_of_runs(half_space, within_rate):
    model, distance = half_space([3.0, -4.0], 0.2).eval(), 0.3
    x = (model.normal * (0.2 + distance)).tolist()
    found = many(model, x, 2000, Gaussian(0.5), Plan(n0=20, n=500, alpha=0.05))
    assert all(c.prediction in (0, -1) for c in found)
    too_large = sum(c.radius > distance for c in found)
    assert within_rate(too_large, 2000, 0.05)
    assert too_large > 50  # the bound is tight: it fails as often as it may


@pytest.mark.parametrize("distance", [0.25, 0.5, 1.0, 2.0, 3.0, 3.5])
def test_half_space_radius_reaches_the_distance(half_space, distance):
    sigma, runs = 0.5, 20
    model = half_space([1.0, 2.0]).eval()
    x = (model.normal * distance * sigma).tolist()
    radii = [c.radius for c in many(model, x, runs, Gaussian(sigma), Plan(n=100_000), seed=1)]
    assert max(radii) < distance * sigma
    assert np.mean(radii) > 0.94 * distance * sigma


def test_half_space_with_anisotropic_noise(half_space):
    """The region's axes are gap * theta, and the gap is the distance in the scaled norm."""
    sigma = np.array([0.2, 0.8], np.float32)
    model = half_space([1.0, 1.0]).eval()
    x = (model.normal * 0.4).tolist()
    true_gap = 0.4 / np.linalg.norm(sigma * model.normal.detach().numpy())
    for c in many(model, x, 5, Gaussian(sigma), Plan(n=50_000)):
        assert 0.95 * true_gap < c.gap < true_gap
        assert np.allclose(c.region.axes, c.gap * sigma.astype(float), rtol=1e-12)
        assert c.radius == c.region.axes.min()
        assert np.array_equal(c.theta, sigma)


@pytest.mark.parametrize("distance", [0.25, 0.5, 0.9])
def test_uniform_threshold_radius_reaches_the_distance(coordinate_threshold, distance):
    lam = 0.5
    found = many(coordinate_threshold, [distance * lam, 7.0], 10, Uniform(lam), Plan(n0=1000, n=100_000))
    radii = [c.radius for c in found]
    assert max(radii) < distance * lam
    assert np.mean(radii) > 0.95 * distance * lam
    assert {c.norm for c in found} == {1} == {c.region.norm for c in found}


def test_uniform_radius_exceeds_the_distance_in_at_most_alpha_of_runs(coordinate_threshold, within_rate):
    found = many(coordinate_threshold, [0.2, 0.0], 2000, Uniform(0.5), Plan(n0=20, n=500, alpha=0.05))
    too_large = sum(c.radius > 0.2 for c in found)
    assert within_rate(too_large, 2000, 0.05)
    assert too_large > 40


def test_mixture_of_one_component_is_tight_for_small_gaps(half_space):
    """The constant sqrt(pi/2): exact as the distance goes to zero, and below the distance everywhere."""
    sigma, model = 0.5, half_space([1.0, 1.0]).eval()
    mixture = GaussianMixture([1.0], [sigma])
    for distance, tight in ((0.02, 0.999), (0.1, 0.99), (0.5, 0.9), (2.0, 0.5)):
        p = norm.cdf(distance)
        true_gap = float(mixture.gap(p, 1 - p))
        assert tight * distance < true_gap < distance
    radii = [c.radius for c in many(model, (model.normal * 0.2 * sigma).tolist(), 5, mixture, Plan(n=100_000))]
    assert max(radii) < 0.2 * sigma
    assert np.mean(radii) > 0.9 * 0.2 * sigma


def test_mixture_is_sound_for_half_spaces(half_space, within_rate):
    """Two components, also anisotropic ones: no certificate reaches the boundary, however near it is."""
    model, distance = half_space([1.0, 1.0]).eval(), 0.15
    x = (model.normal * distance).tolist()
    for sigmas in ([0.2, 0.6], [[0.2, 0.5], [0.5, 0.2]], [[0.1, 0.9], 0.4]):
        mixture = GaussianMixture([0.3, 0.7], sigmas)
        found = many(model, x, 300, mixture, Plan(n0=50, n=2000, alpha=0.05))
        # The nearest boundary point in the region's own norm decides.
        theta = np.broadcast_to(mixture.theta.astype(float), 2)
        true_gap = distance / np.linalg.norm(theta * model.normal.detach().numpy())
        assert within_rate(sum(c.gap > true_gap for c in found), 300, 0.05)
        assert any(c.prediction == 0 for c in found)


# What a certificate says


def test_certificates_come_in_order_with_their_evidence(small_network):
    x = torch.rand(7, 1, 8, 8)
    ids = [5, 3, 9, 100, 2, 0, 7]
    plan = Plan(n0=30, n=300, alpha=0.01)
    network = Network(small_network, 5, numerics=FLOAT32)
    found = certify(network, x, ids=ids, smoothing=Gaussian(0.3), plan=plan, seed=4)
    assert [c.id for c in found] == ids
    for c, center in zip(found, x, strict=True):
        p_a, p_b = plan.estimate(c.bound_k, c.runner_up_votes, c.bound_n, 5, plan.alpha)
        assert (c.p_a, c.p_b) == (p_a, p_b)
        assert c.gap == float(Gaussian(0.3).gap(p_a, p_b))
        assert (c.top_votes, c.votes) == (c.bound_k, 300) == (c.bound_k, c.bound_n)
        assert (c.seed, c.alpha, c.num_classes, c.model_hash) == (4, 0.01, 5, network.hash)
        assert c.seconds > 0
        if c.prediction >= 0:
            assert c.reason == ""
            assert np.array_equal(c.region.center, center.double().numpy())
        else:
            assert c.region is None
            assert c.radius == c.proxy_radius == c.gap == 0
            assert "not proven the most likely" in c.reason
    alone = certify(network, x[3:4], ids=[100], smoothing=Gaussian(0.3), plan=plan, seed=4)[0]
    assert (alone.top_votes, alone.gap) == (found[3].top_votes, found[3].gap)


def test_thetas_of_certificates_are_their_own(small_network):
    sigma = np.full((1, 8, 8), 0.3, np.float32)
    a, b = certify(small_network, torch.rand(2, 1, 8, 8), num_classes=5, smoothing=Gaussian(sigma), plan=Plan(n=20))
    assert not np.shares_memory(a.theta, b.theta)
    assert not a.theta.flags.writeable
    scalar = certify(small_network, torch.rand(1, 1, 8, 8), num_classes=5, smoothing=Gaussian(0.3), plan=Plan(n=20))[0]
    assert scalar.theta.shape == ()
    assert scalar.theta.dtype == np.float32


@pytest.mark.parametrize("options", [{"early_abstain": True}, {"stop": "betting"}, {"stop": "checkpoints"}])
def test_giving_up_is_early_and_says_why(known_shares, options):
    for c in many(known_shares([0.3, 0.4, 0.3]), [0.0], 20, Gaussian(1.0), Plan(n0=50, n=100_000, **options), 3):
        assert c.prediction == -1
        assert c.votes < 20_000
        assert f"{c.votes} votes, too few to hope" in c.reason


def test_target_radius_takes_few_votes_and_is_reached(half_space):
    model = half_space([1.0]).eval()
    for c in many(model, [1.0], 20, Gaussian(0.5), Plan(n=100_000, target_radius=0.5)):
        assert c.radius >= 0.5
        assert c.votes < 2000
        assert c.stop == "betting"
    for c in many(model, [0.3], 20, Gaussian(0.5), Plan(n=100_000, target_radius=0.5)):
        assert c.radius < 0.5
        assert c.votes < 10_000


def test_sequential_plans_certify_nearly_what_all_votes_would(half_space):
    model = half_space([1.0]).eval()
    full = np.mean([c.radius for c in many(model, [0.5], 5, Gaussian(0.5), Plan(n=100_000))])
    for stop in ("betting", "checkpoints"):
        found = many(model, [0.5], 5, Gaussian(0.5), Plan(n=100_000, stop=stop))
        assert np.mean([c.radius for c in found]) > 0.9 * full
        assert np.mean([c.votes for c in found]) < 50_000


def test_same_call_same_votes(small_network):
    x = torch.rand(5, 1, 8, 8)
    options = {"smoothing": Gaussian(0.5), "plan": Plan(n=300, stop="betting"), "num_classes": 5, "numerics": FLOAT32}
    one, two, other = (certify(small_network, x, seed=seed, **options) for seed in (0, 0, 1))
    assert [(c.top_votes, c.gap) for c in one] == [(c.top_votes, c.gap) for c in two]
    assert [c.top_votes for c in one] != [c.top_votes for c in other]


def test_any_input_shape_and_kind(known_shares):
    model = known_shares([0.8, 0.2])
    for x in (np.zeros((2, 3)), [[0.0], [0.0]], torch.zeros(2, 1, 2, 3, 2), torch.zeros(2, 4, requires_grad=True)):
        for c in certify(model, x, num_classes=2, smoothing=Gaussian(1.0), plan=Plan(n=1000)):
            assert c.prediction == 0
            assert c.region.shape == np.shape(x)[1:] if not isinstance(x, Tensor) else tuple(x.shape[1:])


def test_floats_that_float32_holds_are_taken_exactly(known_shares):
    x = torch.tensor([[0.1, -3.0]])
    options = {"num_classes": 2, "smoothing": Gaussian(1.0), "plan": Plan(n=1000)}
    for given in (x, x.half(), x.bfloat16(), x.double(), x.numpy(), x.double().numpy()):
        c = certify(known_shares([0.8, 0.2]), given, **options)[0]
        assert c.region.center.tolist() == torch.as_tensor(given).double()[0].tolist()


def test_bare_callable():
    found = certify(
        lambda x: -x,
        np.ones((2, 2)) * [0, 9],
        model_id="mine",
        num_classes=2,
        smoothing=Gaussian(1.0),
        numerics=FLOAT32,
    )
    assert [(c.prediction, c.model_hash) for c in found] == [(0, "mine, float32 on grid 2^-12")] * 2


# Bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.zeros(0, 2)}, r"expected x of shape .* got \(0, 2\)"),
        ({"x": torch.zeros(3, 0)}, r"expected x of shape .* got \(3, 0\)"),
        ({"x": torch.zeros(2)}, r"expected x of shape .* got \(2,\)"),
        ({"x": torch.tensor([[0.0, torch.nan]])}, "expected finite x, got NaN"),
        ({"x": torch.tensor([[0.0, torch.inf]])}, "expected finite x, got NaN or infinity"),
        ({"x": [["a", "b"]]}, "expected x as an array of floats"),
        ({"x": [[1.0], [1.0, 2.0]]}, "expected x as an array of numbers"),
        ({"x": np.zeros((2, 2), np.uint8)}, r"expected x as floats .* got uint8: integers have no unit.* / 255"),
        ({"x": torch.zeros(2, 2, dtype=torch.int64)}, r"got int64: integers have no unit"),
        ({"x": np.full((2, 2), 51) / 255.0}, r"expected x that float32 holds exactly.*got float64.*'float32'"),
        ({"x": torch.full((2, 2), 0.1, dtype=torch.float64)}, r"expected x that float32 holds exactly"),
        ({"ids": [1]}, "expected one id for each of 2 inputs, got 1"),
        ({"ids": [1, 1]}, "expected distinct ids"),
        ({"ids": [0.5, 1.0]}, "expected ids as whole numbers"),
        ({"ids": ["a", "b"]}, "expected ids as whole numbers"),
        ({"ids": [-1, 1]}, r"expected example ids.*got -1"),
        ({"ids": [2**60, 1]}, r"expected example ids.*got 1152921504606846976"),
        ({"seed": -1}, r"expected seed.*got -1"),
        ({"seed": 2**64}, r"expected seed.*got 18446744073709551616"),
        ({"seed": 0.5}, r"expected seed.*got 0.5"),
        ({"seed": None}, r"expected seed.*got None"),
        ({"num_classes": 1}, r"expected num_classes.*got 1"),
        ({"device": "abacus"}, r"expected a device.*got 'abacus'"),
        ({"smoothing": Gaussian([1.0, 1.0, 1.0])}, r"shape \(2,\), got \(3,\)"),
        ({"model": lambda x: x}, "expected model_id with a bare callable"),
    ],
)
@pytest.mark.parametrize("call", [certify, predict])
def test_bad_arguments(call, changes, message, half_space):
    evaluations = []
    model = half_space([1.0, 1.0]).eval()
    model.register_forward_hook(lambda *_: evaluations.append(1))
    options = {"model": model, "x": torch.zeros(2, 2), "num_classes": 2, "smoothing": Gaussian(1.0), "plan": Plan(n=50)}
    options |= changes
    with pytest.raises(ArgumentError, match=message):
        call(options.pop("model"), options.pop("x"), **options)
    if "smoothing" not in changes:
        assert not evaluations


@pytest.mark.parametrize("call", [certify, predict])
def test_bad_models(call, half_space):
    options = {"smoothing": Gaussian(1.0), "plan": Plan(n=50), "num_classes": 2}
    with pytest.raises(ModelError, match="evaluation mode"):
        call(half_space([1.0]), torch.zeros(1, 1), **options)
    with pytest.raises(ModelError, match=r"shape \(\d+, 3\), got \(\d+, 2\)"):
        call(half_space([1.0]).eval(), torch.zeros(1, 1), **(options | {"num_classes": 3}))
    with pytest.raises(ModelError, match="got NaN"):
        call(half_space([1.0], float("nan")).eval(), torch.zeros(1, 1), **options)


@pytest.mark.parametrize("extra", [{"device": "cpu"}, {"numerics": FLOAT32}, {"model_id": "mine"}])
def test_options_beside_a_network_are_refused(half_space, extra):
    network = Network(half_space([1.0]).eval(), 2)
    with pytest.raises(ArgumentError, match=rf"expected no {next(iter(extra))} beside a Network"):
        certify(network, torch.zeros(1, 1), smoothing=Gaussian(1.0), **extra)


@pytest.mark.parametrize("call", [certify, predict])
def test_too_few_votes_are_said_before_any_evaluation(call, half_space):
    evaluations = []
    model = half_space([1.0]).eval()
    model.register_forward_hook(lambda *_: evaluations.append(1))
    options = {"num_classes": 2, "smoothing": Gaussian(0.1), "plan": Plan(n=9)}
    with pytest.raises(AnisocertWarning, match=r"expected .*got n = 9"):  # an error in this test suite
        call(model, torch.ones(1, 1), **options)
    assert not evaluations
    with pytest.warns(AnisocertWarning):
        result = call(model, torch.ones(1, 1), **options)[0]
    assert (result.prediction if call is certify else result) == -1


def test_enough_votes_are_no_reason_to_warn(half_space):
    assert (
        certify(half_space([1.0]).eval(), [[1.0]], num_classes=2, smoothing=Gaussian(0.1), plan=Plan(n=10))[0].radius
        > 0
    )
    assert predict(half_space([1.0]).eval(), [[1.0]], num_classes=2, smoothing=Gaussian(0.1), plan=Plan(n=11))[0] == 0


def test_target_radius_out_of_reach_is_said(half_space):
    with pytest.warns(AnisocertWarning, match=r"expected target_radius <= 0\.3.*got 0\.5"):
        certify(half_space([1.0]).eval(), [[1.0]], num_classes=2, smoothing=Gaussian(0.1), plan=Plan(target_radius=0.5))


@dataclasses.dataclass(frozen=True)
class Careless(Method):
    """A method of somebody else's, with a mistake."""

    theta: Tensor
    name = "careless"

    def choose(self, query, plan):
        return self.theta


@pytest.mark.parametrize(
    "theta",
    [
        torch.ones(2, 3),
        torch.ones(1, 2),
        torch.ones(2, 2, dtype=torch.float64),
        torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
        torch.tensor([[1.0, -1.0], [1.0, 1.0]]),
        torch.tensor([[1.0, torch.nan], [1.0, 1.0]]),
        torch.tensor([[1.0, torch.inf], [1.0, 1.0]]),
    ],
)
def test_thetas_that_noise_cannot_be_drawn_with(half_space, theta):
    with pytest.raises(ArgumentError, match="theta"):
        certify(
            half_space([1.0, 1.0]).eval(),
            torch.ones(2, 2),
            num_classes=2,
            smoothing=Gaussian(1.0),
            method=Careless(theta),
        )


def test_a_method_cannot_change_a_mixtures_theta(half_space):
    model, x = half_space([1.0, 1.0]).eval(), torch.ones(1, 2)
    options = {"num_classes": 2, "smoothing": GaussianMixture([0.5, 0.5], [0.1, 0.2]), "plan": Plan(n=50)}
    with pytest.raises(ArgumentError, match="mixture's own theta"):
        certify(model, x, method=Careless(torch.full((1, 2), 9.0)), **options)
    assert certify(model, x, method=Fixed(), **options)[0].prediction == 0


def test_interrupted_from_on_votes(small_network):
    network = Network(small_network, 5, numerics=FLOAT32)
    x = torch.rand(4, 1, 8, 8)
    options = {"smoothing": Gaussian(0.5), "plan": Plan(n=2000)}
    expected = certify(Network(small_network, 5, numerics=FLOAT32), x, **options)
    told = []

    def interrupt(votes: int) -> None:
        told.append(votes)
        if sum(told) > 3000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify(network, x, on_votes=interrupt, **options)
    again = certify(network, x, **options)
    assert [(c.prediction, c.top_votes) for c in again] == [(c.prediction, c.top_votes) for c in expected]


# Prediction


def test_predict_answers_clear_votes_and_abstains_on_ties(known_shares):
    x = torch.zeros(300, 1)
    options = {"smoothing": Gaussian(1.0), "numerics": FLOAT32}
    clear = predict(known_shares([0.1, 0.7, 0.2]), x, num_classes=3, plan=Plan(n=200), **options)
    assert (clear == 1).all()
    tied = predict(known_shares([0.5, 0.5]), x, num_classes=2, plan=Plan(n=200, alpha=0.001), **options)
    assert (tied == -1).mean() > 0.98


def test_predict_is_cohens_rule(known_shares):
    network = Network(known_shares([0.45, 0.4, 0.15]), 3, numerics=FLOAT32)
    x, ids, plan = torch.zeros(400, 1), list(range(400)), Plan(n=300, alpha=0.05)
    answers = predict(network, x, smoothing=Gaussian(1.0), plan=plan, seed=3)
    query = Query(network, Gaussian(1.0), x, ids, 3)
    found = count_votes(query, torch.ones(400, 1, 1), Stage.PREDICT, [plan.n])
    for tally in found:
        first, second = sorted(tally.counts, reverse=True)[:2]
        sure = binomial_test(int(first), int(first + second)) <= 0.05
        assert answers[tally.position] == (tally.counts.argmax() if sure else -1)
    assert 0.05 < (answers == -1).mean() < 0.95


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.48, 0.52], [0.34, 0.33, 0.33]])
def test_predict_is_wrong_in_at_most_alpha_of_runs(known_shares, within_rate, shares):
    """Wrong: an answer other than the likeliest class. Of equal ones every answer but the first counts as wrong."""
    answers = predict(
        known_shares(shares), torch.zeros(3000, 1), num_classes=len(shares), smoothing=Gaussian(1.0), numerics=FLOAT32,
        plan=Plan(n=100, alpha=0.05),
    )  # fmt: skip
    assert within_rate(int(((answers >= 0) & (answers != np.argmax(shares))).sum()), 3000, 0.05)
