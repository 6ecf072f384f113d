"""Two steps, against classifiers whose every probability is known."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from torch import nn

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.models import TwoSteps
from anisocert.smoothing import NOISES, Gaussian

SURE = 1e-9  # an alpha at which no certificate of a test fails by chance


def joint(model, z):
    """Exact P(code, class) at points: `m x codes x classes`. The two noises are independent."""
    named = model.selector.shares(z, model.sigma)
    networks = model.networks * (1 if len(model.networks) > 1 else len(model.codes))
    voted = [one.shares(z, code.double().numpy()) for one, code in zip(networks, model.codes, strict=True)]
    return named[:, :, None] * np.stack(voted, 1)


@pytest.mark.parametrize("seed", range(60))
def test_exact_shares_of_every_event_give_regions_with_a_majority(problem, points_of, seed):
    model, x, rng = problem(seed, dim=2 + seed % 3, codes=2 + seed % 3, own=seed % 3 == 0)
    thetas = np.stack([np.broadcast_to(code.double().numpy(), x.shape[1:]) for code in model.codes])
    for one in x.astype(np.float64)[:3]:
        shares = joint(model, one[None])[0]
        label = int(shares.sum(0).argmax())
        for size in range(1, len(thetas) + 1):
            for chosen in itertools.combinations(range(len(thetas)), size):
                p = min(float(shares[list(chosen), label].sum()), 1 - 1e-12)
                gap = float(Gaussian.gap(p, 1 - p))
                if gap > 0:
                    tau = (model.sigma**-2 + thetas[list(chosen)].min(0) ** -2) ** -0.5
                    z = points_of(Gaussian.region(one, tau, gap), rng, 300)
                    assert joint(model, z)[:, :, label].sum(1).min() >= 0.5 - 1e-9


def test_votes_give_regions_with_a_majority(problem, points_of):
    certified = 0
    for seed in range(6):
        model, x, rng = problem(seed, own=seed > 2)
        plan = ac.Plan(n=1000, alpha=SURE)
        for one in ac.certify(model, x, num_classes=3, smoothing=ac.Gaussian(0.5), method=ac.TwoStep(), plan=plan):
            assert (one.method, one.alpha, one.selector_alpha, one.cap) == ("two-step", SURE, None, None)
            assert one.top_votes <= one.selector_top <= one.selector_votes == one.votes
            if one.prediction >= 0:
                certified += 1
                smallest = model.codes[[int(k) for k in one.codes.split(",")]].double().numpy().min(0)
                tau = (model.sigma**-2 + smallest**-2) ** -0.5
                assert (one.theta <= tau).all()
                np.testing.assert_allclose(one.theta, tau, rtol=2e-7)
                shares = joint(model, points_of(one.region, rng))
                assert shares[:, :, one.prediction].sum(1).min() > 0.5
    assert certified > 10


def test_the_region_is_what_the_event_gives(planes, at_zero):
    """The code is always the first: only that both noises tell about x is lost, tau / theta of the distance."""
    one = at_zero(planes(10.0, 0.3), ac.TwoStep(), 20_000)
    assert one.codes == "0,1"  # the larger noise of the other code costs nothing
    assert one.selector_top == one.votes
    tau = (0.5**-2 + 0.25**-2) ** -0.5
    assert 0.93 * 0.3 * tau / 0.25 < one.radius < 0.3 * tau / 0.25


def test_a_rare_code_of_small_noise_is_left_out(planes, at_zero):
    """Under sigma, 99.9 % of the copies get the code of large noise."""
    model = planes(0.5 * ndtri(0.999), 1.0, codes=(1.0, 0.05))
    one = at_zero(model, ac.TwoStep(), 20_000)
    assert one.codes == "0"
    assert one.top_votes < one.selector_top < one.votes
    assert one.theta == pytest.approx((0.5**-2 + 1) ** -0.5)
    assert one.radius > 0.3  # with both codes at most 0.05 * 3.4


def test_alpha_is_kept(planes, within_rate):
    runs, alpha = 600, 0.1
    model = planes(0.5 * ndtri(0.875), 0.25 * ndtri(0.8), codes=(0.25, 0.2))
    found = ac.certify(
        model, np.zeros((runs, 2), np.float32), num_classes=2, smoothing=ac.Gaussian(0.5), method=ac.TwoStep(),
        plan=ac.Plan(n0=20, n=100, alpha=alpha),
    )  # fmt: skip
    shares = joint(model, np.zeros((1, 2)))[0]
    exact = {"0": shares[0, 0], "0,1": shares[:, 0].sum()}
    wrong = sum(one.prediction == 0 and one.p_a > exact[one.codes] for one in found)
    assert {one.codes for one in found} == {"0", "0,1"}  # which votes other than these chose
    assert within_rate(wrong, runs, alpha)
    assert wrong > runs * alpha / 4


def test_an_abstention_names_the_class_that_was_voted_on(planes, at_zero):
    one = at_zero(planes(10.0, -0.0125), ac.TwoStep(), 200, n0=20_000)
    assert one.prediction == -1
    assert f"class 1 has {one.top_votes} of 200 votes" in one.reason


@pytest.mark.parametrize("stop", ["checkpoints", "betting"])
def test_sequential_plans_see_the_event(planes, at_zero, stop):
    one = at_zero(planes(10.0, 0.5), ac.TwoStep(), 20_000, stop=stop, tolerance=0.3)
    assert one.votes < 20_000
    tau = (0.5**-2 + 0.25**-2) ** -0.5
    assert 0 < one.radius < 0.5 * tau / 0.25


def test_what_is_not_the_event_is_one_other_class(problem):
    """A bound for each class bounds all else by its votes, whichever classes or codes they are for."""
    model, x, _ = problem(0)
    ask = {"num_classes": 3, "smoothing": ac.Gaussian(0.5), "method": ac.TwoStep()}
    found = ac.certify(model, x, plan=ac.Plan(n=1000, bound="two-class"), **ask)
    assert any(one.prediction >= 0 and one.bound_k < one.bound_n for one in found)
    for one in found:
        assert one.bound_k + one.runner_up_votes == one.bound_n
        assert one.p_b >= 1 - one.bound_k / one.bound_n


def test_scores_are_those_of_the_chosen_copy(planes):
    model = planes(0.0, 0.0, codes=(0.25, 1.0))
    copies = torch.randn(200, 3, 2, generator=torch.Generator().manual_seed(0))
    code = model.selector(copies[:, 0]).argmax(1)
    label = model.classifier(copies[torch.arange(200), 1 + code]).argmax(1)
    assert torch.equal(TwoSteps(model)(copies).argmax(1), 2 * code + label)
    assert len(set((2 * code + label).tolist())) == 4


class Rescored(nn.Module):
    """A classifier's scores, times a factor, beside a class that nobody votes for."""

    def __init__(self, classifier, factor, masked):
        super().__init__()
        self.classifier, self.factor, self.masked = classifier, factor, masked

    def forward(self, x):
        scores = self.factor * self.classifier(x)
        return torch.cat([scores, torch.full_like(scores[:, :1], self.masked)], 1)


@pytest.mark.parametrize(
    ("factor", "masked"), [(1.0, -1e9), (1.0, torch.finfo().min), (1.0, -torch.inf), (1e-9, -1e-3), (1e30, -1e38)]
)
def test_votes_are_the_networks_however_its_scores_are_spread(planes, factor, masked):
    """Sums in float32 would make ties of them, which go to the first class."""
    model = planes(0.0, 0.0, codes=(0.25, 1.0))
    model.classifier = Rescored(model.classifier, factor, masked)
    copies = torch.randn(200, 3, 2, generator=torch.Generator().manual_seed(0))
    code = model.selector(copies[:, 0]).argmax(1)
    label = model.classifier(copies[torch.arange(200), 1 + code]).argmax(1)
    assert set(label.tolist()) == {0, 1}
    assert torch.equal(TwoSteps(model)(copies).argmax(1), 3 * code + label)
    x, ask = np.array([[3.0, 0.0]], np.float32), {"num_classes": 3, "plan": ac.Plan(n0=50, n=400)}
    (certified,) = ac.certify(model.eval(), x, smoothing=ac.Gaussian(0.5), method=ac.TwoStep(), **ask)
    (fixed,) = ac.certify(model.classifier, x, smoothing=ac.Gaussian(0.25), **ask)
    assert certified.prediction == fixed.prediction >= 0


def test_a_nan_is_nobodys_vote():
    model = ac.Coded(nn.Linear(2, 2), nn.Linear(2, 2), ac.Codebook([0.25, 1.0], 0.5))
    copies = torch.randn(4, 3, 2)
    copies[1, 0] = torch.nan  # what the selector sees
    copies[2, 1:] = torch.nan
    assert TwoSteps(model)(copies).isnan().any(1).tolist() == [False, True, True, False]


def test_results_do_not_depend_on_the_batch(problem, as_alone):
    model, x, _ = problem(2)
    as_alone(model, x, ac.Gaussian(0.5), ac.TwoStep())


def test_uniform_noise_is_refused(planes, at_zero):
    with pytest.raises(ArgumentError, match=r"expected Gaussian noise for two-step, got uniform: use Selected\(\)"):
        at_zero(planes(0.3, 0.5), ac.TwoStep(), 100, ac.Uniform(0.5))


def test_a_noise_of_ones_own_is_refused_although_its_base_is_normal(planes, at_zero, monkeypatch):
    """Its copies would be drawn without its own scales, and the region be that of its own gap."""

    class Half(Gaussian):
        name = "half"

        def scales(self, theta):
            return 2 * theta.unsqueeze(1)

        @staticmethod
        def _gap(p_a, p_b):
            return ndtri(p_a) - ndtri(p_b)

    monkeypatch.setitem(NOISES, Half.name, NOISES.pop(Half.name))
    with pytest.raises(ArgumentError, match="expected Gaussian noise for two-step, got half"):
        at_zero(planes(0.3, 0.5), ac.TwoStep(), 100, Half(0.5))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", [ac.Selected(), ac.TwoStep()])
def test_a_gpu_gives_the_same_kind_of_certificate(planes, method):
    model, plan = planes(0.6, 0.3), ac.Plan(n=20_000)
    on_cpu, on_gpu = (
        ac.certify(
            model, np.zeros((2, 2), np.float32), num_classes=2, smoothing=ac.Gaussian(0.5), method=method, plan=plan,
            device=device,
        )[1]
        for device in ("cpu", "cuda")
    )  # fmt: skip
    assert (on_gpu.prediction, on_gpu.codes) == (on_cpu.prediction, on_cpu.codes) == (0, on_cpu.codes)
    assert on_gpu.radius == pytest.approx(on_cpu.radius, rel=0.1)
