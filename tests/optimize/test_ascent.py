"""Ascent: gradients against finite differences, the published listing step by step, batching, black boxes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fixtures.classifiers import Rounding
from torch.distributions.normal import Normal

import anisocert as ac
from anisocert.engine import Network, Query, Stage, Stream
from anisocert.engine.noise import noise_source
from anisocert.engine.numerics import ALIGN
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.optimize import Ascent, PublishedAnisotropic, PublishedIsotropic
from anisocert.optimize._ceiling import Limits
from anisocert.optimize.ascent import _groups
from anisocert.optimize.soft import Problem, SoftVotes

SHAPE = (2, 3)
FLOAT32 = ac.Numerics("float32")
"""Where a reference is computed in float32, or two ways to one number may differ by float32's rounding only."""


def below(problem, upper):
    return Limits.of(problem.query, upper)


def eps_of(smoothing, ids, count):
    """The noise that an ascent draws, `len(ids) x count x *shape`."""
    source = noise_source(torch.device("cpu"), smoothing.base, (1.0,), len(ids), SHAPE)
    streams = [Stream(0, Stage.OPTIMIZE, number) for number in ids]
    source.open(range(len(ids)), streams, torch.zeros(len(ids), *SHAPE), torch.ones(len(ids), 1, 1, 1))
    slots, votes = np.repeat(np.arange(len(ids)), count), np.tile(np.arange(count), len(ids))
    return source.noisy(slots, votes).view(len(ids), count, *SHAPE)


def published_listing(model, batch, noise, l2, learning_rate, theta, iterations, samples, kappa):
    """The paper's Listing 1 with its zero_grad, softmax on the logits, and given noise instead of fresh."""
    batch_size, img_size = len(batch), int(np.prod(batch.shape[1:]))
    theta = theta.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([theta], lr=learning_rate)
    initial_theta = theta.detach().clone()
    m = Normal(torch.zeros(batch_size), torch.ones(batch_size))
    for i in range(iterations):
        repeated = theta.unsqueeze(1).expand(-1, samples, *SHAPE)
        eps = noise[:, i * samples : (i + 1) * samples]
        out = model((batch.unsqueeze(1) + eps * repeated).flatten(0, 1)).softmax(1)
        out = out.reshape(batch_size, samples, -1).mean(dim=1)
        vals, _ = torch.topk(out, 2)
        if l2:
            gap = m.icdf(vals[:, 0].clamp(0.001, 0.999)) - m.icdf(vals[:, 1].clamp(0.001, 0.999))
        else:
            gap = vals[:, 0] - vals[:, 1]
        prod = torch.prod(theta.reshape(batch_size, -1) ** (1 / img_size), dim=1)
        smallest = torch.min(theta.view(batch_size, -1), dim=1).values
        loss = -((prod * gap).sum() + kappa * (smallest * gap).sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            theta.copy_(torch.max(theta, initial_theta))
    return theta.detach()


@pytest.mark.parametrize("smoothing", [ac.Gaussian(0.3), ac.Uniform(0.3)], ids=["l2", "l1"])
@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_paper_preset_follows_the_published_listing_step_by_step(smooth, smoothing, iterations):
    x, ids = torch.rand(3, *SHAPE), [5, 9, 2]
    # distinct values: among equal ones rounding would decide which pixel torch.min gives the gradient to
    start = torch.linspace(0.2, 0.9, 18).view(3, *SHAPE)
    noise = eps_of(smoothing, ids, iterations * 20)
    expected = published_listing(smooth, x, noise, smoothing.norm == 2, 0.04, start, iterations, 20, 2.0)
    method = PublishedAnisotropic(ascent=Ascent(iterations, 20, 0.04, adam=True, logarithmic=False))
    network = Network(smooth, 3, numerics=FLOAT32)
    found = method.grow(Problem(Query(network, smoothing, x, ids, 0), "logits"), start)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert (found - start).abs().max() > 1e-3


def test_paper_isotropic_is_plain_gradient_ascent_on_theta_times_gap(smooth):
    smoothing, x, ids = ac.Gaussian(0.3), torch.rand(2, *SHAPE), [1, 2]
    method = PublishedIsotropic(iterations=5, samples=30, learning_rate=0.04)
    found = method.choose(Query(Network(smooth, 3, numerics=FLOAT32), smoothing, x, ids, 0), ac.Plan())
    noise, theta = eps_of(smoothing, ids, 150), torch.full((2,), 0.3)
    for i in range(5):
        theta.requires_grad_(True)
        rows = x.unsqueeze(1) + theta.view(2, 1, 1, 1) * noise[:, 30 * i : 30 * (i + 1)]
        vals = smooth(rows.flatten(0, 1)).softmax(1).view(2, 30, -1).mean(1).topk(2).values.clamp(0.001, 0.999)
        radius = theta * (torch.special.ndtri(vals[:, 0]) - torch.special.ndtri(vals[:, 1])) / 2
        theta = theta.detach() + 0.04 * torch.autograd.grad(radius.sum(), theta)[0]
    torch.testing.assert_close(found.flatten(), theta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smoothing", [ac.Gaussian(0.3), ac.Uniform(0.3)], ids=["l2", "l1"])
def test_one_step_moves_along_the_gradient_of_the_objective(smooth, smoothing):
    x, ids, samples, rate = torch.rand(1, *SHAPE), [3], 40, 1e-3
    start = torch.rand(1, *SHAPE) * 0.2 + 0.2
    noise = eps_of(smoothing, ids, samples).double()
    network64 = torch.nn.Sequential(*(m for m in smooth.double().children()))

    def objective(theta):
        p = network64((x.double().unsqueeze(1) + theta.unsqueeze(1) * noise).flatten(0, 1)).softmax(1).mean(0)
        a, b = p.topk(2).values
        gap = smoothing.soft_gap(a, b)
        return float((gap * theta.log().mean().exp() + 2 * gap * theta.min()).detach())

    slope = torch.zeros(SHAPE, dtype=torch.float64)
    for index in np.ndindex(*SHAPE):
        step = torch.zeros(1, *SHAPE, dtype=torch.float64)
        step[(0, *index)] = 1e-6
        slope[index] = (objective(start.double() + step) - objective(start.double() - step)) / 2e-6
    smooth.float()
    climb = Ascent(1, samples, rate, adam=False, logarithmic=False)
    problem = Problem(Query(Network(smooth, 3, numerics=FLOAT32), smoothing, x, ids, 0), "logits")
    moved = climb.climb(
        problem, start,
        lambda gap, theta: gap * theta.flatten(1).log().mean(1).exp() + 2 * gap * theta.flatten(1).amin(1),
        lower=torch.zeros_like(start), limits=below(problem, 9.0),
    )  # fmt: skip
    torch.testing.assert_close((moved - start)[0].double() / rate, slope, rtol=2e-2, atol=2e-3)


@pytest.mark.precision
@pytest.mark.parametrize("method", [ac.Anisotropic(), PublishedAnisotropic(isotropic=ac.Isotropic()), ac.Isotropic()])
def test_theta_does_not_depend_on_the_batch(smooth, method):
    x, plan = torch.rand(7, *SHAPE), ac.Plan(n=2000)
    network = Network(smooth, 3)
    ids = list(range(10, 17))
    together = method.choose(Query(network, ac.Gaussian(0.3), x, ids, 0), plan)
    order = [4, 0, 6, 2]
    shuffled = method.choose(Query(network, ac.Gaussian(0.3), x[order], [ids[i] for i in order], 0), plan)
    alone = method.choose(Query(network, ac.Gaussian(0.3), x[2:3], ids[2:3], 0), plan)
    assert torch.equal(shuffled, together[order])
    assert torch.equal(alone, together[2:3])


@pytest.mark.precision
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3), (1, 1, 2, 3)])
def test_input_rank_does_not_matter(smooth, shape):
    x, plan = torch.rand(3, 6), ac.Plan(n=2000)
    method = ac.Anisotropic(isotropic=ac.Isotropic(bounded_reach=False))
    flat = method.choose(Query(Network(smooth, 3), ac.Gaussian(0.3), x, [0, 1, 2], 0), plan)
    shaped = method.choose(Query(Network(smooth, 3), ac.Gaussian(0.3), x.view(3, *shape), [0, 1, 2], 0), plan)
    torch.testing.assert_close(shaped.flatten(1), flat.flatten(1))


@pytest.mark.precision
def test_the_network_is_not_touched(smooth):
    before = {name: value.clone() for name, value in smooth.state_dict().items()}
    ac.Anisotropic().choose(
        Query(Network(smooth, 3), ac.Gaussian(0.3), torch.rand(2, *SHAPE), [0, 1], 0), ac.Plan(n=1000)
    )
    assert all(torch.equal(value, before[name]) for name, value in smooth.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in smooth.parameters())


def test_a_search_leaves_a_user_the_products_that_were_asked_for(smooth, exact_products):
    query = Query(Network(smooth, 3), ac.Gaussian(0.3), torch.rand(2, *SHAPE), [0, 1], 0)
    assert PublishedIsotropic(iterations=2).choose(query, ac.Plan()).shape[0] == 2


@pytest.mark.precision
def test_logits_and_probabilities_agree(smooth):
    x, plan = torch.rand(2, *SHAPE), ac.Plan(n=1000)
    probabilities = torch.nn.Sequential(smooth, torch.nn.Softmax(1)).eval()
    one, two = (
        ac.Anisotropic(outputs=outputs).choose(
            Query(Network(network, 3, numerics=FLOAT32), ac.Gaussian(0.3), x, [0, 1], 0), plan
        )
        for outputs, network in (("logits", smooth), ("probabilities", probabilities))
    )
    torch.testing.assert_close(one, two)
    with pytest.raises(ModelError, match="expected probabilities"):
        ac.Anisotropic(outputs="probabilities").choose(Query(Network(smooth, 3), ac.Gaussian(0.3), x, [0, 1], 0), plan)


@pytest.mark.parametrize(
    "method", [PublishedIsotropic(1, 1), ac.Anisotropic(ascent=Ascent(1, 1, 0.1, adam=True, logarithmic=True))], ids=str
)
def test_probabilities_that_are_taken_for_logits_are_told(smooth, method):
    """As logits they hardly differ: the search would see a network that is sure of nothing."""
    probabilities = torch.nn.Sequential(smooth, torch.nn.Softmax(1)).eval()
    query = Query(Network(probabilities, 3), ac.Gaussian(0.3), torch.rand(2, *SHAPE), [0, 1], 0)
    with pytest.warns(AnisocertWarning, match="it seems .*--outputs probabilities.* votes are the same$") as told:
        method.choose(query, ac.Plan(n0=10, n=100))
    assert len({str(one.message) for one in told}) == 1


@pytest.mark.precision
def test_a_black_box_is_refused_by_gradients_and_taken_by_votes(smooth):
    def black_box(x):
        with torch.no_grad():
            return smooth(x)

    x, plan = torch.rand(2, *SHAPE), ac.Plan(n=1000)
    network = Network(black_box, 3, model_id="black box")
    with pytest.raises(ModelError, match="black box"):
        ac.Anisotropic().choose(Query(network, ac.Gaussian(0.3), x, [0, 1], 0), plan)
    for method in (ac.Fixed(), ac.Isotropic()):
        certificates = ac.certify(network, x, num_classes=3, smoothing=ac.Gaussian(0.3), method=method, plan=plan)
        assert len(certificates) == 2


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("method", [ac.Anisotropic(), PublishedAnisotropic(isotropic=PublishedIsotropic(5, 20))])
def test_a_search_has_gradients_where_its_caller_has_switched_them_off(switched_off, method):
    torch.manual_seed(0)
    conv = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    model = torch.nn.Sequential(conv, torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    x, plan = torch.rand(2, 2, 4, 4), ac.Plan(n=1000)

    def theta(network, inputs):
        return method.choose(Query.of(network, ac.Gaussian(0.3), inputs), plan)

    expected = theta(Network(model, 3, numerics=FLOAT32), x)
    with switched_off():
        network = Network(model, 3, numerics=FLOAT32)
        assert torch.equal(theta(network, x.clone()), expected)
    assert torch.equal(theta(network, x), expected)  # by what was made there


@pytest.mark.precision
def test_bounds_hold_after_every_step(smooth):
    start = torch.full((2, 1, 1), 0.3).expand(2, *SHAPE).contiguous()
    climb = Ascent(30, 10, 0.5, adam=True, logarithmic=True)
    problem = Problem(Query(Network(smooth, 3), ac.Gaussian(0.3), torch.rand(2, *SHAPE), [0, 1], 0), "logits")
    found = climb.climb(
        problem, start, lambda gap, theta: theta.flatten(1).sum(1), lower=start, limits=below(problem, 0.9)
    )
    torch.testing.assert_close(found, torch.full_like(found, 0.9))


@pytest.mark.precision
@pytest.mark.parametrize("iterations", [0, 1, 5, 6])
def test_the_average_is_that_of_the_second_half_of_the_steps(smooth, iterations):
    start = torch.full((2, *SHAPE), 0.3)
    problem = Problem(Query(Network(smooth, 3), ac.Gaussian(0.3), torch.rand(2, *SHAPE), [0, 1], 0), "logits")

    def theta(steps, averaged):
        climb = Ascent(steps, 10, 0.2, adam=True, logarithmic=True, averaged=averaged)
        return climb.climb(
            problem,
            start,
            lambda gap, theta: gap * theta.flatten(1).sum(1),
            lower=start,
            limits=below(problem, 9.0),
        )

    kept = [theta(steps, False).log() for steps in range(iterations // 2 + 1, iterations + 1)]
    expected = torch.stack(kept).mean(0).exp() if kept else start
    torch.testing.assert_close(theta(iterations, True), expected)


def test_centred_copies_have_no_mean_and_their_slopes_less_noise():
    weight = torch.linspace(-1, 1, 6)
    linear = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2)).eval()
    linear[1].weight.data = torch.stack([weight, -weight]) / 4
    network = Network(linear, 2, numerics=FLOAT32)
    problem = Problem(Query(network, ac.Gaussian(0.3), torch.rand(1, *SHAPE), [3], 0), "logits")

    def slopes(centred):
        votes, theta = SoftVotes(problem, 100, centred=centred), torch.full((1, *SHAPE), 0.3).requires_grad_(True)
        each = [torch.autograd.grad(votes.mean(theta, 20 * i, 20)[0, 0], theta)[0] for i in range(60)]
        return torch.stack(each)

    plain, centred = slopes(False), slopes(True)
    assert (centred.std(0) < plain.std(0) / 2).all()
    torch.testing.assert_close(centred.mean(0), plain.mean(0), rtol=0, atol=float(4 * plain.std(0).max() / 60**0.5))


@pytest.mark.parametrize("samples", [8, 7, 3])
def test_sensitivity_is_the_mean_square_of_slopes(smooth, samples):
    network, x, theta = Network(smooth, 3, numerics=FLOAT32), torch.rand(2, *SHAPE), torch.full((2, *SHAPE), 0.4)
    problem = Problem(Query(network, ac.Gaussian(0.3), x, [4, 8], 0), "logits", torch.tensor([2, 0]))
    eps, expected = eps_of(ac.Gaussian(0.3), [4, 8], samples), torch.zeros_like(x)
    for i, top in enumerate((2, 0)):
        for noise in eps[i]:
            row = (x[i] + theta[i] * noise).unsqueeze(0).requires_grad_(True)
            (slope,) = torch.autograd.grad(smooth(row).softmax(1)[0, top], [row])
            expected[i] += slope[0].square() / samples
    found = Ascent(1, samples, 0.1, adam=True, logarithmic=True).sensitivity(problem, theta)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(SoftVotes(problem, 3).sensitivity(theta, samples), expected)


@pytest.mark.parametrize("at_once", [1, 3, 4, 6, 7, 9])
@pytest.mark.parametrize("centred", [False, True])
def test_copies_in_parts_give_the_same_mean_and_gradient(smooth, at_once, centred):
    network, x = Network(smooth, 3, numerics=FLOAT32), torch.rand(2, *SHAPE)
    problem = Problem(Query(network, ac.Gaussian(0.3), x, [4, 8], 0), "logits")

    def value_and_slope(size):
        theta = torch.linspace(0.2, 0.6, 12).view(2, *SHAPE).requires_grad_(True)
        mean = SoftVotes(problem, size, centred=centred).mean(theta, 0, 7)
        return mean.detach(), torch.autograd.grad(mean[:, 0].square().sum(), theta)[0]

    for found, expected in zip(value_and_slope(at_once), value_and_slope(7), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("samples", "fitting", "rows"), [(100, 64, 50), (97, 64, 49), (100, 40, 34), (100, 200, 200)])
def test_all_calls_of_a_search_have_one_size(smooth, monkeypatch, samples, fitting, rows):
    """For which a network is compiled; no more of its copies are padding than there are parts."""
    network, sizes = Network(smooth, 3, numerics=ac.Numerics("float32", rows=320)), list[int]()
    monkeypatch.setattr(network, "gradient_rows", lambda _: fitting)
    x = torch.rand(1, *SHAPE)
    problem = Problem(Query(network, ac.Gaussian(0.3), x, [0], 0), "logits", torch.tensor([1]))
    climb, start = Ascent(2, samples, 0.1, adam=True, logarithmic=True), torch.full((1, *SHAPE), 0.3)
    problem.require_gradients()
    monkeypatch.setattr(Problem, "require_gradients", lambda _: None)
    network.on_rows = lambda count, _: sizes.append(count)
    climb.climb(problem, start, lambda gap, theta: gap, lower=start / 9, limits=below(problem, 9.0))
    climb.sensitivity(problem, start)
    assert {*sizes} == {rows}


@pytest.mark.precision
def test_memory_is_bounded_however_many_copies_an_input_has(smooth, monkeypatch):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = smooth

        def forward(self, x):
            if torch.is_grad_enabled():
                calls.append(len(x))
            return self.network(x)

    calls: list[int] = []
    network = Network(Counting().eval(), 3, numerics=ac.Numerics(rows=320))
    monkeypatch.setattr("anisocert.engine._rows.HOST_KEPT", 300 * network._gradients.kept_bytes(SHAPE))
    calls.clear()
    climb = Ascent(2, 500, 0.1, adam=True, logarithmic=True)
    start = torch.full((3, *SHAPE), 0.3)
    problem = Problem(Query(network, ac.Gaussian(0.3), torch.rand(3, *SHAPE), [0, 1, 2], 0), "logits")
    climb.climb(
        problem,
        start,
        lambda gap, theta: gap * theta.flatten(1).amin(1),
        lower=start,
        limits=below(problem, 9.0),
    )
    assert 100 < max(calls) <= 300


@pytest.mark.parametrize("later", [0, 2])
def test_an_ascent_that_runs_out_of_memory_goes_on_with_fewer_copies(smooth, caplog, later):
    start, tried = torch.full((3, *SHAPE), 0.3), []

    class Small(torch.nn.Module):
        def __init__(self, most):
            super().__init__()
            self.network, self.most, self.calls = smooth, most, 0

        def forward(self, x):
            if torch.is_grad_enabled() and x.requires_grad and len(x) != ALIGN:  # those are probes
                tried.append(len(x))
                self.calls += 1
                if len(x) > self.most and self.calls > later:
                    raise torch.OutOfMemoryError("CUDA out of memory")
            return self.network(x)

    def found(most):
        network = Network(Small(most).eval(), 3, numerics=ac.Numerics("float32", rows=1600))
        x = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(0))
        problem = Problem(Query(network, ac.Gaussian(0.3), x, [0, 1, 2], 0), "logits")
        climb = Ascent(3, 40, 0.1, adam=True, logarithmic=True)
        # each step lowers the ceiling: what begins again begins below the first one
        limits = replace(below(problem, 0.4), farthest=torch.full((3,), 1e-3))
        return climb.climb(
            problem, start, lambda gap, theta: gap * theta.flatten(1).sum(1), lower=start, limits=limits
        )  # fmt: skip

    whole = found(10**9)
    torch.testing.assert_close(found(max(tried) // 3), whole)
    assert "out of memory with gradients" in caplog.text
    with pytest.raises(torch.OutOfMemoryError):
        found(0)


def test_groups_are_of_one_size_and_cover_all():
    groups = list(_groups(7, 3))
    assert [len(positions) for positions, _ in groups] == [3, 3, 3]
    assert [real for _, real in groups] == [3, 3, 1]
    assert sorted({int(i) for positions, real in groups for i in positions[:real]}) == list(range(7))


def test_bad_options_are_named():
    with pytest.raises(ArgumentError, match="expected iterations >= 0"):
        Ascent(-1, 10, 0.1, adam=True, logarithmic=True)
    with pytest.raises(ArgumentError, match="kappa"):
        PublishedAnisotropic(kappa=-1)
    with pytest.raises(ArgumentError, match="expected prefer 'ball' or 'volume', got 'both'"):
        ac.Anisotropic(prefer="both")
    with pytest.raises(ArgumentError, match="limit"):
        ac.Isotropic(limit=0.5)


class Odd(torch.nn.Module):
    """Networks that are no obstacle to votes."""

    def __init__(self, network, how):
        super().__init__()
        self.network, self.how = network, how

    def forward(self, x):
        match self.how:
            case "squeezes":
                return self.network(x).unsqueeze(2).squeeze()
            case "in place":
                x -= 0.5
                return self.network(x)
            case "a backward pass of its own":
                return self.network(Rounding.apply(20 * x) / 20)


@pytest.mark.parametrize("how", ["squeezes", "in place", "a backward pass of its own"])
def test_what_votes_can_be_searched(smooth, how):
    model = Odd(smooth, how).eval()
    network = Network(model, 3, numerics=ac.Numerics("float32", rows=160))
    x = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(0))
    problem = Problem(Query(network, ac.Gaussian(0.3), x, [0, 1, 2], 0), "logits", torch.tensor([0, 1, 2]))
    climb, start = Ascent(3, 40, 0.1, adam=True, logarithmic=True), torch.full((3, *SHAPE), 0.3)
    found = climb.climb(problem, start, lambda gap, theta: gap, lower=start / 9, limits=below(problem, 9.0))
    assert (found != start).any(1).all()
    assert (climb.sensitivity(problem, found).flatten(1) > 0).all()
    leaf = torch.rand(40, *SHAPE, requires_grad=True)
    slopes = [
        torch.autograd.grad(call(leaf.clone())[:, 0].sum(), [leaf])[0]
        for call in (model, network.differentiable_scores)
    ]
    torch.testing.assert_close(slopes[0], slopes[1])


def test_what_is_said_of_sensitivity_survives_too_little_memory(smooth, caplog):
    class Small(torch.nn.Module):
        def forward(self, x):
            if x.requires_grad and len(x) > 50:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return smooth(x)

    found = []
    for model in (smooth, Small()):
        network = Network(model.eval(), 3, numerics=ac.Numerics("float32", rows=160))
        x = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(0))
        problem = Problem(Query(network, ac.Gaussian(0.3), x, [0, 1, 2], 0), "logits", torch.tensor([0, 1, 2]))
        found.append(Ascent(3, 40, 0.1, adam=True, logarithmic=True).sensitivity(problem, torch.full((3, *SHAPE), 0.3)))
    assert "out of memory with gradients" in caplog.text
    torch.testing.assert_close(found[0], found[1])
