"""Networks that are told theta: wherever votes are counted, what is told is the scale of the noise that is drawn."""

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import nn

import anisocert as ac
from anisocert.attack._targets import Targets
from anisocert.diagnosis.probing import Sample, probe
from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.engine.told import under
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Codebook, Coded, TwoSteps, denoised
from anisocert.optimize import Cascade, Selected, TwoStep
from anisocert.optimize.soft import Problem, SoftVotes

PLAN = ac.Plan(n0=64, n=2000)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))]
POINTS = np.array([[0.5, 0.0], [-0.5, 0.3]], np.float32)


class Offset(nn.Module):
    """Class 0 where the first value exceeds 2 (t - 1), t being what it is told of the noise there; else class 1."""

    told_theta = True

    def forward(self, pair):
        x, theta = pair[:, 0].flatten(1), pair[:, 1].flatten(1)
        height = x[:, 0] - 2 * (theta[:, 0] - 1)
        return torch.stack([height, -height], 1)

    @staticmethod
    def share(x, theta):
        """Of class 0, under Gaussian noise of theta in the first value, and told so."""
        return ndtr((x - 2 * (theta - 1)) / theta)


class NamesTheta(nn.Module):
    """Answers the place of what it is told among levels, whatever it sees: a vote for another one was told wrong."""

    told_theta = True

    def __init__(self, levels):
        super().__init__()
        self.register_buffer("levels", torch.tensor(levels, dtype=torch.float32))

    def forward(self, pair):
        told = pair[:, 1].flatten(1)
        same = (told[:, :, None] == self.levels).all(1)  # every value of an input is told the same
        return torch.cat([same.float(), 0.5 * torch.ones_like(told[:, :1])], 1) + 0 * pair.flatten(1).sum(1)[:, None]


def close(counts, share):
    return abs(counts[0] / counts.sum() - share) < 4 * math.sqrt(share * (1 - share) / counts.sum()) + 1e-9


@pytest.fixture
def network():
    return Network(Offset().eval(), 2)


def test_rows_that_are_settled_later_are_told_theirs_too(network, doubtful):
    query = Query.of(network, ac.Gaussian(1.0), np.zeros((8, 2), np.float32), seed=3)
    scales = torch.linspace(0.25, 2.0, 8)[:, None, None].expand(8, 1, 2)
    expected = all_votes(query, scales, Stage.ESTIMATE, [200])
    doubtful()
    assert np.array_equal(all_votes(query, scales, Stage.ESTIMATE, [200]), expected)


def test_rows_are_told_where_they_are_to_be(network):
    query = Query.of(network, ac.Gaussian(1.0), np.zeros((1, 2), np.float32))
    source, place = query.noise(1, 2.0**-12), torch.empty(32, 2, 2)
    source.open([0], query.streams(Stage.ESTIMATE), query.x, torch.full((1, 1, 2), 0.5))
    found = source.noisy(np.zeros(32, int), np.arange(32), place)
    assert found.data_ptr() == place.data_ptr()
    assert (place[:, 1] == 0.5).all()


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_one_batch_are_told_their_own_theta(device):
    """Eight inputs in flight at once, each under its own noise; votes have the shares of that theta alone."""
    network = Network(Offset().eval(), 2, device)
    theta = torch.linspace(0.25, 2.0, 8)
    query = Query.of(network, ac.Gaussian(1.0), np.zeros((8, 2), np.float32), seed=3)
    scales = torch.stack([theta, torch.full((8,), 0.1)], 1)[:, None].to(device)
    counts = all_votes(query, scales, Stage.ESTIMATE, [500, 4000])
    assert all(close(one, Offset.share(0.0, float(t))) for one, t in zip(counts, theta, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grid", [0.0, 2.0**-12])
@pytest.mark.parametrize("noise", [ac.Gaussian, ac.Uniform])
def test_what_is_told_is_bitwise_what_the_noise_has(noise, grid, device):
    levels = [0.1, 0.3, 0.7]
    network = Network(NamesTheta(levels).eval(), 4, device, ac.Numerics("float32", grid=grid))
    query = Query.of(network, noise(1.0), np.zeros((3, 2), np.float32))
    counts = all_votes(query, torch.tensor(levels, device=device).view(3, 1, 1), Stage.PILOT, [100])
    assert counts.tolist() == [[100, 0, 0, 0], [0, 100, 0, 0], [0, 0, 100, 0]]


def test_certificates_and_predictions_are_of_the_same_function(network):
    """The offset of theta = 0.5 makes both inputs class 0, that of 1.5 class 1; radii are those of the exact shares."""
    for sigma, wanted in ((0.5, 0), (1.5, 1)):
        found = ac.certify(network, POINTS, smoothing=ac.Gaussian(sigma), plan=PLAN, num_classes=2)
        told = ac.predict(network, POINTS, smoothing=ac.Gaussian(sigma), plan=PLAN, num_classes=2)
        assert [c.prediction for c in found] == [wanted] * 2 == told.tolist()
        for c, x in zip(found, POINTS[:, 0], strict=True):
            true = abs(float(x) - 2 * (sigma - 1))  # distance to the plane of the function that was told
            assert 0.6 * true < c.radius <= true


@pytest.mark.parametrize("method", [ac.Isotropic(), ac.Anisotropic()])
def test_searches_and_their_certificates_tell_each_candidate_its_own_theta(network, method):
    """With its theta told, no certificate reaches beyond the plane of the function of that theta."""
    for c in ac.certify(network, POINTS, smoothing=ac.Gaussian(0.5), method=method, plan=PLAN, num_classes=2):
        theta = np.broadcast_to(c.theta, (2,))
        wanted = 0 if float(c.x[0] if c.region is None else c.region.center[0]) > 2 * (theta[0] - 1) else 1
        assert c.prediction == wanted
        counts = all_votes(
            Query.of(network, ac.Gaussian(1.0), c.region.center[None].astype(np.float32), [c.id]),
            torch.tensor(theta.copy())[None, None], Stage.ESTIMATE, [c.votes],
        )  # fmt: skip
        assert counts[0, c.prediction] == c.top_votes


def test_soft_votes_are_told_theta_and_differentiate_through_it(network):
    query = Query.of(network, ac.Gaussian(1.0), POINTS[:1])
    votes = SoftVotes(Problem(query, "logits"), at_once=8)

    def mean(level):
        theta = torch.full((1, 2), level, requires_grad=True)
        return votes.mean(theta, 0, 1), theta

    p, theta = mean(1.0)
    (slope,) = torch.autograd.grad(p[0, 0], [theta])
    votes = SoftVotes(Problem(query, "logits"), at_once=8)
    eps = votes._draw(0, 1)[0, 0]
    score = POINTS[0, 0] + float(eps[0])  # at theta = 1 nothing is added
    s = 1 / (1 + math.exp(-2 * score))
    assert float(p.detach()[0, 0]) == pytest.approx(s, abs=1e-6)
    assert float(slope[0, 0]) == pytest.approx(2 * s * (1 - s) * (float(eps[0]) - 2), rel=1e-4)


def test_sensitivity_is_that_of_the_function_of_theta(network):
    query = Query.of(network, ac.Gaussian(1.0), POINTS[:1])
    problem = Problem(query, "logits", torch.tensor([0]))
    found = [float(SoftVotes(problem, 8).sensitivity(torch.full((1, 2), t), 8)[0, 0]) for t in (1.0, 6.0)]
    assert found[1] < 0.1 * found[0]  # told 6, the plane is ten away


def test_attacks_evaluate_what_was_certified(network):
    (c, _) = ac.certify(network, POINTS, smoothing=ac.Gaussian(0.5), plan=PLAN, num_classes=2)
    targets = Targets.of(network, [c], seed=1)
    counts = targets.votes(targets.points(torch.zeros(1, 2)), [2000], Stage.REFUTE)
    assert close(counts[0], Offset.share(0.5, 0.5))


def test_a_system_tells_it_too(network):
    system = ac.System(
        network, num_classes=2, smoothing=ac.Gaussian(0.5), method=ac.Isotropic(), plan=PLAN, secret=b"0" * 32
    )
    answer = system.answer(POINTS[0])
    assert answer.prediction == 0
    assert system.answer(POINTS[0]).prediction == 0  # from the memory, whose probe it passes


def test_a_diagnosis_tells_each_level(network):
    sample = Sample(torch.from_numpy(POINTS[:1]), np.array([0]), [0])
    levels = probe(network, sample, "l2", [0.5, 1.5], PLAN, votes=1000)
    for level in levels:
        assert level.accuracy == pytest.approx(Offset.share(0.5, level.sigma), abs=0.06)


class ByLevel(nn.Module):
    """Told more than 1: a third of the votes for each class about 0, under noise of 1.5. Told less: class 0."""

    told_theta = True

    def forward(self, pair):
        x, theta = pair[:, 0].flatten(1)[:, :1], pair[:, 1].flatten(1)[:, :1]
        third = 1.5 * 0.4307
        zero = torch.where(theta > 1, third - x.abs(), 1.0)
        return torch.cat([zero, torch.where(theta > 1, x - third, 0.0), torch.where(theta > 1, -x - third, 0.0)], 1)


def test_codes_are_told_one_by_one():
    """Under the first code no class has a majority, as it is told 1.5; under the second, told 0.5, one has all."""
    book, x = Codebook([1.5, 0.5], 0.25), np.zeros((1, 2), np.float32)
    for classifier in (ByLevel(), [ByLevel(), ByLevel()]):
        network = Network(Coded(classifier, None, book).eval(), 3)
        assert network.told_theta
        (c,) = ac.certify(network, x, smoothing=ac.Gaussian(1.5), method=Cascade(), plan=PLAN, num_classes=3)
        assert (c.prediction, c.codes, c.top_votes) == (0, "0,1", c.votes)
        told = ac.predict(network, x, smoothing=ac.Gaussian(1.5), method=Cascade(), plan=PLAN, num_classes=3)
        assert told.tolist() == [0]
        assert network.probe((2,)).shape[1] == 3


class First(nn.Module):
    def forward(self, x):
        return torch.stack([x.flatten(1)[:, 0], -x.flatten(1)[:, 0]], 1)


def test_a_selector_is_not_told_what_it_is_to_choose():
    book = Codebook([0.5, 1.5], 0.25)
    network = Network(Coded(Offset(), First(), book).eval(), 2)
    x = np.array([[2.0, 0.0]], np.float32)
    (c,) = ac.certify(network, x, smoothing=ac.Gaussian(0.25), method=Selected(), plan=PLAN, num_classes=2)
    assert (c.prediction, c.codes, float(c.theta)) == (0, "0", 0.5)
    with pytest.raises(ArgumentError, match="a selector that is not told theta"):
        Coded(First(), Offset(), book)
    with pytest.raises(ArgumentError, match="all told theta, or none"):
        Coded([First(), Offset()], None, book)
    with pytest.raises(ArgumentError, match="not told theta for two steps"):
        TwoSteps(Coded(Offset(), First(), book))


def test_a_mixture_of_one_component_is_told_what_its_noise_has(network):
    (one, _) = ac.certify(network, POINTS, smoothing=ac.GaussianMixture([1.0], [0.5]), plan=PLAN, num_classes=2)
    assert one.prediction == 0  # told 0.5, not the theta below it


class Neighbour(Offset):
    """Looks at what the row before it is told."""

    def forward(self, pair):
        return super().forward(torch.stack([pair[:, 0], pair[:, 1].roll(1, 0)], 1))


def test_scores_may_depend_on_the_rows_own_theta_alone():
    with pytest.raises(ModelError, match="depend on that input alone"):
        ac.certify(Neighbour().eval(), POINTS, smoothing=ac.Gaussian(0.5), plan=PLAN, num_classes=2)


def test_inputs_without_theta_are_refused(network):
    network.fit((2,), 0)
    with pytest.raises(ArgumentError, match=r"expected inputs beside theta, \(2, 2\), got \(2,\)"):
        network.scores(torch.zeros(4, 2))


class Halved(nn.Module):
    """A denoiser that goes half of the way to what it is told."""

    told_theta = True

    def forward(self, pair):
        return (pair[:, 0] + pair[:, 1]) / 2


def test_a_denoiser_that_is_told_theta_makes_the_two_told():
    both = denoised(First().eval(), Halved().eval())
    assert Network(both, 2).told_theta
    assert under(0.5, both)(torch.tensor([[1.0, 0.0]]))[0, 0] == 0.75
    assert under(0.5, First())(torch.tensor([[1.0, 0.0]]))[0, 0] == 1.0
    bare = denoised(First().eval(), lambda x: x)
    assert not Network(bare, 2, model_id="bare").told_theta
    function = denoised(lambda x: First()(x), Halved().eval())
    assert Network(function, 2, model_id="function").told_theta
    with pytest.raises(ArgumentError, match="not told theta behind a denoiser"):
        denoised(Offset().eval(), nn.Identity().eval())


class Convolved(nn.Module):
    """A small image network behind a told step, so that batch norms fold and convolutions are reshaped."""

    told_theta = True

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, pair):
        maps = torch.cat([pair[:, 0], pair[:, 1]], 1)
        return self.norm(self.conv(maps)).relu().mean((2, 3))


def test_a_told_network_is_folded():
    torch.manual_seed(0)
    model = Convolved().train()
    model(torch.randn(16, 2, 1, 6, 6))
    network = Network(model.eval(), 4)
    network.fit((1, 6, 6), 0)
    assert "norm" not in {node.target for node in network._run.graph.nodes}
    pair = torch.rand(network.numerics.rows, 2, 1, 6, 6)
    assert torch.allclose(network.scores(pair).float(), model(pair), atol=2e-2)


class Strict(Offset):
    """Takes no theta that is no noise's, in whichever row."""

    def forward(self, pair):
        if not bool((pair[:, 1] > 0).all()):
            raise ValueError("expected theta > 0")
        return super().forward(pair)


@pytest.mark.parametrize("method", [ac.Fixed(), ac.Isotropic(), ac.Anisotropic()])
def test_no_row_is_told_a_theta_that_no_noise_has(method):
    """Not in trials of the network either, nor in padding."""
    network, plain = (Network(one.eval(), 2, numerics=ac.Numerics(compile=False)) for one in (Strict(), Offset()))
    options = {"smoothing": ac.Gaussian(0.5), "plan": PLAN, "method": method}
    found, wanted = (ac.certify(one, POINTS, **options) for one in (network, plain))
    assert [(c.prediction, c.radius) for c in found] == [(c.prediction, c.radius) for c in wanted]
    network.probe((2,))


@pytest.mark.parametrize("change", [lambda t: t.amax(), lambda t: t.mean(), lambda t: t[:1]])
def test_a_theta_of_another_row_is_noticed(change):
    class Mixes(Offset):
        def forward(self, pair):
            return super().forward(pair) + pair[:, :1, 0] * change(pair[:, 1, :1])

    with pytest.raises(ModelError, match="depend on that input alone"):
        Network(Mixes().eval(), 2).fit((2,), 100)


MIXTURE = ac.GaussianMixture([0.5, 0.5], [0.4, 0.6])


@pytest.mark.parametrize(
    ("classifier", "smoothing", "method", "said"),
    [
        (Offset(), MIXTURE, ac.Fixed(), "one component for a network that is told theta, got 2 components"),
        (Coded(Offset(), First(), Codebook([0.5, 1.5], 0.25)), ac.Gaussian(0.25), TwoStep(), "not told theta for two"),
        (First(), MIXTURE, ac.Isotropic(), "one component for isotropic"),
        (First(), MIXTURE, ac.Average(0.3), "a mixture's own theta"),
        (First(), ac.Gaussian(0.25), Selected(), "a model with a codebook for selected"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_promised(classifier, smoothing, method, said):
    network = Network(classifier.eval(), 2, model_id="one")
    memory = ac.Memory(lifetime=0.01)
    with pytest.raises(ArgumentError, match=said):
        ac.System(network, smoothing=smoothing, method=method, plan=PLAN, memory=memory, secret=b"0" * 32)
    with pytest.raises(ArgumentError, match=said):
        ac.certify(network, POINTS, smoothing=smoothing, method=method, plan=PLAN)


@pytest.mark.parametrize("lifetime", [None, 0.01])
def test_inputs_that_no_noise_fits_are_no_attempt(lifetime):
    """No vote was drawn about them, so that no alpha is spent, and no attempt counted."""
    memory = ac.Memory(lifetime=lifetime)
    noise = ac.Gaussian(np.array([0.5, 0.5, 0.5], np.float32))
    system = ac.System(Offset().eval(), num_classes=2, smoothing=noise, memory=memory, plan=PLAN, secret=b"0" * 32)
    with pytest.raises(ArgumentError, match=r"a scalar or of shape \(2,\), got \(3,\)"):
        system.answers(POINTS)
    assert (memory.submissions, [memory.attempts(x) for x in POINTS]) == (0, [0, 0])
