"""The smoothed selector, against classifiers whose every probability is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import ndtri

import anisocert as ac
from anisocert.engine import Query, Stage, all_votes
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.models import TwoSteps
from anisocert.smoothing import Gaussian, cap

SURE = 1e-9  # an alpha at which no certificate of a test fails by chance


def under(model, z, k):
    """Exact shares of each class at points under code k, by its network."""
    return model.networks[k if len(model.networks) > 1 else 0].shares(z, model.codes[k].double().numpy())


def answers(model, z):
    """The composed classifier's answers at points, from exact probabilities; -1 where the leading two are close."""
    code = model.selector.shares(z, model.sigma).argmax(1)
    found = np.full(len(z), -1)
    for k in range(len(model.codes)):
        shares = under(model, z[code == k], k)
        ranked = np.sort(shares, 1)
        found[code == k] = np.where(ranked[:, -1] - ranked[:, -2] > 1e-9, shares.argmax(1), -1)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_exact_shares_give_regions_in_which_the_answer_does_not_change(problem, points_of, seed):
    model, x, rng = problem(seed, dim=2 + seed % 3, codes=2 + seed % 4, own=seed % 3 == 0)
    for one in x.astype(np.float64):
        selected = model.selector.shares(one[None], model.sigma)[0]
        k = int(selected.argmax())
        theta = model.codes[k].numpy()
        voted = under(model, one[None], k)[0]
        far, gap = (float(Gaussian.gap(p, 1 - p)) for p in np.minimum((selected.max(), voted.max()), 1 - 1e-12))
        if min(far, gap) > 0:
            region = Gaussian.region(one, theta, gap, far * model.sigma)
            assert set(answers(model, points_of(region, rng))) <= {int(voted.argmax()), -1}


def test_votes_give_regions_in_which_the_answer_does_not_change(problem, points_of):
    certified = 0
    for seed in range(8):
        model, x, rng = problem(seed, own=seed > 3)
        found = ac.certify(
            model, x, num_classes=3, smoothing=ac.Gaussian(0.5), method=ac.Selected(), plan=ac.Plan(n=2000, alpha=SURE)
        )
        for one in found:
            assert (one.method, one.alpha, one.selector_alpha) == ("selected", SURE, SURE / 2)
            if one.prediction >= 0:
                certified += 1
                np.testing.assert_array_equal(one.theta, model.codes[int(one.codes)].numpy())
                assert one.region.enclosing_radius <= one.cap
                assert set(answers(model, points_of(one.region, rng))) <= {one.prediction, -1}
    assert certified > 10


@pytest.mark.parametrize(("far_selector", "far_class"), [(0.3, 0.5), (0.6, 0.2), (1.0, 0.4)])
def test_the_region_reaches_the_nearer_border(planes, at_zero, far_selector, far_class):
    one = at_zero(planes(far_selector, far_class), ac.Selected(), 50_000)
    assert one.codes == "0"
    assert 0.93 * min(far_selector, far_class) < one.radius < min(far_selector, far_class)


def test_a_code_with_a_shape_is_cut_where_the_selector_ends(planes, at_zero):
    one = at_zero(planes(0.3, 0.5, codes=[[0.25, 4.0], [1.0, 1.0]]), ac.Selected(), 5000)
    np.testing.assert_allclose(one.region.axes, [one.cap, one.cap])
    assert one.cap < 0.3 < 0.25 * one.gap < 0.5


def test_alpha_is_kept_where_both_votes_are_at_their_limits(planes, within_rate):
    runs, alpha = 500, 0.2
    model, x = planes(0.5 * ndtri(0.7), 0.25 * ndtri(0.7)), np.zeros((500, 2), np.float32)
    found = ac.certify(
        model, x, num_classes=2, smoothing=ac.Gaussian(0.5), method=ac.Selected(), plan=ac.Plan(n=100, alpha=alpha)
    )
    true_cap, true_axis = 0.5 * ndtri(0.7), 0.25 * ndtri(0.7)
    wrong = [one.cap > true_cap or 0.25 * one.gap > true_axis for one in found]
    assert within_rate(sum(wrong), runs, alpha)
    assert sum(wrong) > runs * alpha / 4  # the test would see a bound that is too large


def test_votes_that_name_a_code_are_not_those_that_prove_it(planes):
    model, x, noise = planes(0.3, 0.5), np.zeros((1, 2), np.float32), ac.Gaussian(0.5)
    (one,) = ac.certify(model, x, num_classes=2, smoothing=noise, method=ac.Selected(), plan=ac.Plan(n=500))
    asked = Query.of(ac.Network(model.selector, 2), noise, x, [0], 0)
    (counts,) = all_votes(asked, noise.scales(asked.x.new_full((1, 1), 0.5)), Stage.CAPTURE, [500])
    assert one.selector_top == counts[int(one.codes)] < 500


def test_where_no_code_is_proven_the_input_abstains_without_votes(planes, at_zero):
    one = at_zero(planes(0.0, 5.0), ac.Selected(), 1000)
    assert (one.prediction, one.votes, one.cap, one.region) == (-1, 0, 0.0, None)
    assert f"names no code surely enough: code {one.codes} has {one.selector_top} of 1000 votes" in one.reason


def test_uniform_noise_gives_cross_polytopes(planes, at_zero):
    one = at_zero(planes(0.2, 0.3), ac.Selected(), 20_000, ac.Uniform(0.5))
    assert one.norm == 1
    assert 0.9 * 0.2 < one.radius < 0.2


def test_a_cap_is_rounded_down():
    k, n, alpha = np.arange(501, 1001), 1000, 1e-3
    far = cap(Gaussian, k, n, alpha, 0.3)
    assert (far <= 0.3 * np.maximum(ndtri(ac.bounds.lower(k, n, alpha)), 0)).all()
    assert (far[-300:] > 0).all()


def test_the_hash_names_all_parts(planes):
    hashes = {
        ac.Network(model, 2).hash
        for model in (
            planes(0.3, 0.5), planes(0.31, 0.5), planes(0.3, 0.51),
            planes(0.3, 0.5, codes=(0.25, 1.1)), planes(0.3, 0.5, sigma=0.6),
        )
    }  # fmt: skip
    assert len(hashes) == 5
    assert ac.Network(planes(0.3, 0.5), 2).hash in hashes


def test_results_do_not_depend_on_the_batch(problem, as_alone):
    model, x, _ = problem(2)
    together = as_alone(model, x, ac.Gaussian(0.5), ac.Selected())
    assert {one.votes for one in together} >= {300}


def test_mistakes_are_named(planes):
    x, plan, model = np.zeros((1, 2), np.float32), ac.Plan(n=100), planes(0.3, 0.5)
    with pytest.raises(ArgumentError, match=r"expected a model with a codebook for selected, .*got Bands"):
        ac.certify(model.classifier, x, num_classes=2, smoothing=ac.Gaussian(0.5), method=ac.Selected(), plan=plan)
    with pytest.raises(ArgumentError, match=r"expected the noise of the codebook's selector, 0\.5, .*got 0\.25"):
        ac.certify(model, x, num_classes=2, smoothing=ac.Gaussian(0.25), method=ac.Selected(), plan=plan)
    shaped = planes(0.3, 0.5, codes=[[1.0] * 3] * 2)
    with pytest.raises(ArgumentError, match=r"expected codes as scalars or of the inputs' shape \(2,\), got \(3,\)"):
        ac.certify(shaped, x, num_classes=2, smoothing=ac.Gaussian(0.5), method=ac.Selected(), plan=plan)
    mixture = ac.GaussianMixture([0.5, 0.5], [0.5, 1.0])
    with pytest.raises(ArgumentError, match="expected a noise of one component for selected"):
        ac.certify(model, x, num_classes=2, smoothing=mixture, method=ac.Selected(), plan=plan)


def test_a_selector_of_another_number_of_codes_is_refused(planes, at_zero):
    with pytest.raises(ac.AnisocertError, match=r"expected the model to return scores of shape \(\d+, 3\)"):
        at_zero(planes(0.3, 0.5, codes=(0.1, 0.2, 0.3)), ac.Selected(), 100)


def test_a_system_with_a_memory_admits_what_was_certified(planes):
    model = planes(0.4, 0.5)
    with ac.Memory() as memory:
        system = ac.System(
            model, num_classes=2, smoothing=ac.Gaussian(0.5), method=ac.Selected(), plan=ac.Plan(n=2000),
            memory=memory, secret=b"0123456789abcdef",
        )  # fmt: skip
        first = system.answer(np.zeros(2, np.float32))
        assert (first.prediction, first.note, first.codes) == (0, "kept", "0")
        again = system.answer(np.full(2, 0.01, np.float32))
        assert again.note == "inherited"
        assert [entry.cap for entry in memory.entries()] == [first.cap]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"cap": None}, "lacks cap"),
        ({"cap": None, "selector_top": None}, "lacks selector_top, cap"),
        ({"cap": 10.0}, "cap is 10.0, the selector's votes give"),
        ({"selector_top": 2000}, "cap is "),
        ({"selector_alpha": 0.001}, "votes of a selector at alpha"),
        ({"selector_alpha": -0.5}, "votes of a selector at alpha"),
        ({"method": "fixed"}, "has codes, selector_top, .* which method fixed has not"),
    ],
)
def test_a_memory_refuses_what_the_selector_does_not_give(planes, at_zero, change, wrong):
    one = at_zero(planes(0.4, 0.5), ac.Selected(), 2000)
    with ac.Memory() as memory, pytest.raises(ArgumentError, match=wrong):
        memory.admit(replace(one, **change))
    with ac.Memory() as memory:
        assert memory.admit(one).note == "kept"
        longer = ac.Region(one.region.center, np.maximum(one.region.axes, 1.01 * one.cap), 2)
        with pytest.raises(ArgumentError, match="at most gap x theta and cap"):
            memory.admit(replace(one, region=longer, id=1))


def test_too_few_votes_for_half_of_alpha_are_said(planes, at_zero):
    """Ten of ten prove a majority at 0.001, and nothing at the half of it that is left for the class."""
    model = planes(10.0, 10.0)
    with pytest.warns(AnisocertWarning, match=r"expected n >= 11 for alpha = 0\.0005, .* got n = 10"):
        assert at_zero(model, ac.Selected(), 10).prediction == -1
    assert at_zero(model, ac.Selected(), 11).prediction == 0  # warnings are errors in this test suite


def test_the_networks_stay_in_the_mode_that_they_are_in():
    classifier, selector, book = torch.nn.Identity().eval(), torch.nn.Identity(), ac.Codebook([0.5, 0.25], 0.5)
    for answering in (classifier, [classifier, classifier]):
        model = ac.Coded(answering, selector, book)
        TwoSteps(model)
        assert (classifier.training, selector.training) == (False, True)
        with pytest.raises(ModelError, match="expected a model in evaluation mode, got training mode in selector: "):
            ac.Network(model, 2)


def test_codebooks_are_kept_in_files(tmp_path):
    book = ac.Codebook(np.arange(1, 13).reshape(2, 2, 3), 0.1)
    book.save(tmp_path / "codes.safetensors")
    again = ac.Codebook.load(tmp_path / "codes.safetensors")
    np.testing.assert_array_equal(again.codes, book.codes)
    assert (again.sigma, again.shape, len(again)) == (float(np.float32(0.1)), (2, 3), 2)
    assert torch.equal(
        ac.Coded(torch.nn.Identity(), torch.nn.Identity(), again).codes, torch.from_numpy(book.codes.copy())
    )


@pytest.mark.parametrize(
    ("codes", "sigma", "wrong"),
    [
        ([0.5], 0.5, "expected 2 to 256 codes"),
        (0.5, 0.5, "expected 2 to 256 codes"),
        ([0.5, -1.0], 0.5, "expected codes positive and finite"),
        ([0.5, 1.0], 0.0, "expected sigma positive and finite"),
        ([0.5, 1.0], [0.5, 0.5], "expected sigma as one number"),
    ],
)
def test_impossible_codebooks_are_refused(codes, sigma, wrong):
    with pytest.raises(ArgumentError, match=wrong):
        ac.Codebook(codes, sigma)
