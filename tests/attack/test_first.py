"""Attacks on a system that has not seen the clean input: exact where the answer is known, none under fixed noise.

A system's noise is fresh in every test: what is asserted of its answers fails by chance once in 10,000 times at most.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.attack import Search, ascending, attack, attack_first, attack_system, system_of, usual_radii
from anisocert.attack._clean import Clean
from anisocert.attack._hunt import Hunt
from anisocert.attack._targets import Targets
from anisocert.engine import Stage
from anisocert.errors import ArgumentError, ModelError
from anisocert.evaluate.withstood import counted
from anisocert.optimize import METHODS, Method
from anisocert.runs import read_run
from anisocert.work import add_to_memory

QUICK = Search(starts=4, steps=10, samples=8, votes=100)
N = 1000
PLAN = ac.Plan(n0=300, n=N)


@pytest.fixture
def made(write_run, tmp_path):
    """Certifies inputs, with their classifier's own answers as labels, into a run; (run, network, inputs)."""
    count = itertools.count()

    def run(model, x, smoothing, method=None, labels=None, plan=PLAN, classes=2, **options):
        x, folder = np.asarray(x, np.float32), tmp_path / f"run{next(count)}"
        network = ac.Network(model.eval(), classes)
        found = ac.certify(network, x, smoothing=smoothing, method=method, plan=plan)
        labels = model(torch.from_numpy(x)).argmax(1).tolist() if labels is None else labels
        said = {"sigma": float(np.min(smoothing.theta)), "n0": plan.n0, "n": plan.n, "data": "unused.npz"} | options
        write_run(folder, found, labels, **said)
        return read_run(folder), network, dict(enumerate(x)).get

    return run


def heights(normal, values):
    """Inputs at known distances from a plane through 0, and elsewhere along it."""
    unit = np.array(normal) / np.linalg.norm(normal)
    along = np.array([-unit[1], unit[0]])
    return [h * unit + (i - 1) * along for i, h in enumerate(values)]


@pytest.mark.parametrize(("smoothing", "reach"), [(ac.Gaussian(0.25), 1.0), (ac.Uniform(0.5), 0.8)])
def test_a_half_space_is_lost_exactly_where_its_plane_is_in_reach(made, half_space, smoothing, reach):
    """Noise is symmetric, so the smoothed classifier has the same plane. In l1 a step of 1 gains the largest slope."""
    h = np.array([0.4, -0.7, 1.1])
    run, network, inputs = made(half_space([0.6, 0.8]), heights([0.6, 0.8], h), smoothing)
    balls = np.concatenate([np.abs(h) / reach - 0.2, np.abs(h) / reach + 0.2])
    found = attack_first(run, network, inputs, radii=balls, how=QUICK, n=N)
    expected = np.abs(h)[:, None] / reach > found.found.radii
    np.testing.assert_array_equal(found.found.withstood, expected)
    assert found.found.promised.tolist() == [0, 1, 0]
    assert found.found.otherwise_inside() == 0
    assert not found.failed
    length = np.linalg.norm((found.points - [inputs(i) for i in range(3)]).astype(np.float64), smoothing.norm, 1)
    lost = found.found.radii[[np.argmin(row) for row in found.found.withstood]]
    assert (length <= lost).all()
    assert (length >= 0.95 * lost).all()


@dataclass(frozen=True)
class Jumping(Method):
    """Sixteen times the noise where the first coordinate is above 0.2."""

    name = "jumping"

    def choose(self, query, plan):
        return torch.where(query.x[:, :1] > 0.2, 16.0, 1.0) * float(query.smoothing.theta)


class Band(nn.Module):
    """Class 1 where the first coordinate is between -3 and 1, else class 0."""

    def forward(self, x):
        inside = torch.minimum(x[:, 0] + 3, 1 - x[:, 0])
        return torch.stack([-inside, inside], 1)


def test_noise_that_changes_from_point_to_point_is_answered_otherwise(made, monkeypatch):
    """Under noise of 0.25, class 1 is certain at 0 and at 0.3; under 4, which is chosen at 0.3, it has 37 %."""
    monkeypatch.setitem(METHODS, "jumping", lambda _: Jumping())
    run, network, inputs = made(Band(), [[0.0, 0.0], [-1.0, 0.0]], ac.Gaussian(0.25), Jumping())
    assert (run.column("radius") > 0.5).all()
    found = attack_first(run, network, inputs, radii=[0.15, 0.3, 0.5], how=QUICK, n=N)
    one = found.found
    assert one.answers.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert (found.radius >= one.radii[3]).all()
    assert [one.otherwise(j, np.ones(2, bool)) for j in range(4)] == [0, 0, 1, 1]
    assert one.inside.tolist() == [0, 1]
    assert (found.found.expected, found.failed) == (None, False)  # each certificate is true: of its own classifier
    np.testing.assert_array_equal(found.inside[0], found.points[0])
    assert 0.2 < found.points[0][0] <= 0.3
    fixed, network, inputs = made(Band(), [[0.0, 0.0]], ac.Gaussian(0.25))
    assert attack_first(fixed, network, inputs, radii=[0.5], how=QUICK, n=N).found.answers.tolist() == [[1, 1]]


def test_lost_once_is_lost_in_larger_balls_and_all_inputs_count(made, half_space):
    """One abstains, one has another label than the classifier says."""
    x = heights([1.0, 0.0], [0.6, 0.0, 0.6])
    run, network, inputs = made(half_space([1.0, 0.0]), x, ac.Gaussian(0.25), labels=[0, 0, 1])
    assert run.column("prediction").tolist() == [0, -1, 0]
    done = []
    found = attack_first(run, network, inputs, radii=[0.8, 0.3], how=QUICK, n=N, on_done=done.append)
    assert sum(done) == 3 * (3 + 1)
    assert found.found.withstood.sum(0).tolist() == [1, 1, 0]
    assert found.found.answers[2].tolist() == [0, 0, 0]
    assert found.found.promised.tolist() == [0, -1, 0]
    assert found.found.otherwise_inside() == 0
    assert [(found.radius >= radius).tolist() for radius in (0.0, 0.3)] == [[True, False, False]] * 2
    some = attack_first(run, network, inputs, ids=[2], radii=[], how=QUICK, n=N)
    assert (some.found.ids.tolist(), some.found.radii.tolist()) == ([2], [0.0])


@pytest.fixture
def digits_run(digits_network, write_run, tmp_path):
    """A run of fixed noise on four digits, with regions so many times as large; (run, network, inputs)."""
    from anisocert.data import digits

    def run(factor):
        network, certificates = digits_network
        some = digits("test").subset(most=4)
        claimed = [replace(c, gap=factor * c.gap, region=c.region.scaled(factor)) for c in certificates]
        write_run(tmp_path / "digits", claimed, some.y, n=4000, bound="two-class", num_classes=10)
        return read_run(tmp_path / "digits"), network, dict(zip(some.ids.tolist(), some.x, strict=True)).get

    return run


def test_fixed_noise_on_digits_is_never_answered_otherwise(digits_run):
    run, network, inputs = digits_run(1.0)
    found = attack_first(run, network, inputs, how=QUICK, n=N)
    assert found.found.radii[-1] > 0.8 * run.column("radius").max()
    assert found.found.otherwise_inside() == 0
    assert [line.otherwise for line in counted(found.found, found.radius)] == 10 * [0]
    assert found.found.withstood[:, 0].sum() >= 3
    # each question and each certificate errs with probability alpha
    most = (4 + found.found.questions) * 0.001
    assert 4 * 2 * 0.001 <= found.found.expected * (1 + 1e-9) <= most * (1 + 2e-9)
    assert not found.failed


def test_fixed_noise_that_claims_too_much_fails(digits_run):
    found = attack_first(*digits_run(3.0), radii=[4.0], how=QUICK, n=N)
    assert not found.found.withstood[:, 1].any()
    assert found.found.otherwise_inside() >= 3
    assert found.failed


def test_attempts_that_abstain_may_go_wrong_too(made, half_space):
    """Of undecided inputs the few that are certified are the lucky ones, half of them wrong, as alpha allows."""
    x = np.zeros((400, 2), np.float32)
    run, network, inputs = made(half_space([1.0, 0.0]), x, ac.Gaussian(1.0), plan=ac.Plan(n0=20, n=50, alpha=0.05))
    certified = int((run.column("prediction") >= 0).sum())
    assert 0 < certified < 100
    found = attack_first(run, network, inputs, radii=[], how=QUICK, n=N)
    assert found.found.expected >= 400 * 0.05
    assert not found.failed


def test_with_a_memory_the_promise_is_the_memorys(made, half_space, tmp_path):
    x = heights([1.0, 0.0], [0.3, -0.3, 0.35])
    run, network, inputs = made(half_space([1.0, 0.0]), x, ac.Gaussian(0.25), ac.Isotropic())
    with ac.Memory.open(tmp_path / "memory.sqlite") as memory:
        add_to_memory(run.folder, memory, {i: inputs(i) for i in range(3)})
    after = read_run(run.folder)
    found = attack_first(after, network, inputs, radii=[0.1], how=QUICK, n=N)
    np.testing.assert_array_equal(found.radius, after.column("memory_radius"))
    assert found.found.promised.tolist() == [0, 1, 0]
    assert found.found.expected is None
    with ac.Memory.open(tmp_path / "memory.sqlite", read_only=True) as memory:
        assert len(memory) == 3  # the attack is on an empty one


class Slab(nn.Module):
    """Class 0 within 0.5 of the plane through 0, else class 1."""

    def forward(self, x):
        inside = 0.5 - x[:, :1].abs()
        return torch.cat([inside, -inside], 1)


def test_fixed_noise_stays_certified_for_everyone_whatever_a_memory_made_of_it(made, tmp_path):
    """Under much noise the slab is lost: a memory promises class 1 where the classifier itself certifies class 0."""
    run, network, inputs = made(Slab(), np.float32([[0.0, 0.0], [2.0, 0.0]]), ac.Gaussian(0.1))
    (wide,) = ac.certify(
        network, np.float32([[3.0, 0.0]]), ids=[77], smoothing=ac.Gaussian(5.0), plan=ac.Plan(n=20_000)
    )
    assert wide.region.contains(inputs(0))
    with ac.Memory.open(tmp_path / "memory.sqlite") as memory:
        memory.admit(wide)
        add_to_memory(run.folder, memory, {i: inputs(i) for i in range(2)})
    after = read_run(run.folder)
    assert after.column("memory_prediction").tolist() == [1, 1]
    found = attack_first(after, network, inputs, radii=[0.1], how=QUICK, n=N)
    assert found.found.promised.tolist() == [0, 1]
    assert found.radius.tolist()[1] == after.column("radius")[1]
    assert found.found.expected > 0  # so that losing more is an error
    assert not found.failed


def test_a_mixture_and_one_theta_for_all(made, half_space):
    x = heights([1.0, 0.0], [0.7, -0.7])
    mixture = ac.GaussianMixture([0.3, 0.7], [0.2, 0.4])
    run, network, inputs = made(half_space([1.0, 0.0]), x, mixture, sigma=0.2, components="0.3:1,0.7:2")
    assert attack_first(run, network, inputs, radii=[0.5, 0.9], how=QUICK, n=N).found.withstood[:, 1].all()
    averaged = ac.Average(np.array([0.2, 0.4], np.float32))
    run, network, inputs = made(
        half_space([1.0, 0.0]), x, ac.Gaussian(0.25), averaged, average_of="another", sigma=0.25
    )
    found = attack_first(run, network, inputs, radii=[0.5, 0.9], how=QUICK, n=N)
    assert found.found.withstood.sum(0).tolist() == [2, 2, 0]
    assert found.found.expected > 0


def test_an_empty_memory_admits_what_is_proposed(made, stripes, monkeypatch):
    """So that points may be asked in batches: with the same noise, the answer is the proposal."""
    x = np.random.default_rng(0).uniform(0.2, 3, (6, 2))
    run, network, inputs = made(stripes, x, ac.Gaussian(0.12), ac.Isotropic())
    proposed = []
    for i in range(6):
        told = []
        for ask in ("propose", "answer"):
            drawn = itertools.count()
            monkeypatch.setattr("anisocert.system.os.urandom", lambda size, drawn=drawn: bytes([next(drawn)] * size))
            system = system_of(run, network, ac.Memory(), N)
            monkeypatch.setattr(system, "_secret", b"the same for both")
            point = inputs(i)
            told.append(system.propose(point[None])[0] if ask == "propose" else system.answer(point))
        one, answer = told
        assert (one.prediction, one.votes, one.top_votes) == (answer.prediction, answer.votes, answer.top_votes)
        assert answer.note == ("abstained" if one.region is None else "kept")
        assert answer.radius == one.radius
        proposed.append(one.prediction)
    assert {0, 1} <= set(proposed)


def test_the_search_repeats_with_its_seed(digits_run):
    """Where no answer is close: the system's noise is fresh every time."""
    run, network, inputs = digits_run(1.0)
    one, same, other = (
        attack_first(run, network, inputs, ids=[0, 5], radii=[0.05], how=replace(QUICK, seed=seed), n=N)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one.points, same.points)
    assert not np.array_equal(one.points, other.points)


def test_what_it_needs(made, half_space, known_shares):
    run, network, inputs = made(half_space([1.0, 0.0]), [[0.5, 0.0]], ac.Gaussian(0.25))
    for radii in ([-0.1], [np.nan], [np.inf], [1e6 + 1], [1e300], np.linspace(0.1, 1, 100)):
        with pytest.raises(ArgumentError, match="expected"):
            attack_first(run, network, inputs, radii=radii)
    with pytest.raises(ArgumentError, match="expected the inputs of"):
        attack_first(run, network, lambda _: None)
    with pytest.raises(ArgumentError, match="at least one id"):
        attack_first(run, network, inputs, ids=[])
    with pytest.raises(ArgumentError, match="which is not in it"):
        attack_first(run, network, inputs, ids=[7])
    run.rows[0]["label"] = 2
    with pytest.raises(ArgumentError, match="expected labels below 2"):
        attack_first(run, network, inputs)
    run.rows[0]["label"] = None
    with pytest.raises(ArgumentError, match=r"label of every input.*, which lacks some: certify data that has them"):
        attack_first(run, network, inputs)
    black, network, inputs = made(known_shares([0.9, 0.1]), [[0.0]], ac.Gaussian(1.0), labels=[0])
    with pytest.raises(ModelError, match=r"Search\(guide=\.\.\.\) takes another"):
        attack_first(black, network, inputs)


def test_radii(made, half_space):
    assert ascending([0.5, 0.25, 0.5]).tolist() == [0.0, 0.25, 0.5]
    run, _, _ = made(half_space([1.0, 0.0]), heights([1.0, 0.0], [0.5, 0.6, 0.7]), ac.Gaussian(0.25))
    radii, largest = usual_radii(run), float(run.column("radius").max())
    assert len(radii) == 8
    np.testing.assert_allclose(np.diff([0, *radii]), radii[0])
    assert 0.9 * largest < radii[-1] < 1.6 * largest
    run, _, _ = made(half_space([1.0, 0.0]), [[0.0, 0.0]], ac.Gaussian(0.25))
    assert 0.5 < usual_radii(run)[-1] < 0.9


@pytest.mark.parametrize("smoothing", [ac.Gaussian(0.1), ac.Uniform(0.2)])
def test_points_stay_in_the_domain_of_a_run(made, half_space, smoothing):
    """In the box too there are points beyond the plane; its walls are not in float32, past which nothing may round."""
    low, high = domain = (-0.1, 0.55)
    x = np.array([[0.5, 0.5], [0.5, 0.3]], np.float32)
    run, network, inputs = made(half_space([0.6, 0.8], 0.2), x, smoothing, domain=domain)
    found = attack_first(run, network, inputs, radii=[3.0], how=QUICK, n=N)
    assert found.found.withstood.sum(0).tolist() == [2, 0]
    every = np.concatenate([found.points, found.inside]).astype(np.float64)
    assert (every >= low).all()
    assert (every <= high).all()
    length = np.linalg.norm((found.points - x).astype(np.float64), smoothing.norm, 1)
    assert (length <= 3.0).all()
    assert (length > 0).all()


def test_a_domain_that_holds_no_other_answer_protects(made, half_space, monkeypatch):
    """Beyond the wall everything is of the other class; no valid input is, and the method refuses all others."""
    method, plane, x = ac.Anisotropic(domain=(0.0, 1.0)), half_space([1.0, 0.0], -0.3), [[0.2, 0.5]]
    run, network, inputs = made(plane, x, ac.Gaussian(0.1), method, domain=(0.0, 1.0))
    assert attack_first(run, network, inputs, radii=[2.0], how=QUICK, n=300).found.answers.tolist() == [[0, 0]]
    fixed, _, _ = made(plane, x, ac.Gaussian(0.1))
    assert attack_first(fixed, network, inputs, radii=[2.0], how=QUICK, n=300).found.answers.tolist() == [[0, 1]]
    # Newcomers to a memory come from there too: the network answers each of them.
    system, proposed = system_of(run, network, ac.Memory(), 300), []
    system.answer(inputs(0))
    propose = system.propose
    monkeypatch.setattr(system, "propose", lambda points: proposed.extend(propose(points)) or proposed)
    assert not attack_system(system, how=QUICK).failed
    assert len(proposed) >= QUICK.starts
    assert not any("no certificate was made" in one.reason for one in proposed)


def test_points_that_float32_cannot_hold_are_an_error(made, half_space):
    run, network, inputs = made(half_space([1.0, 0.0]), [[0.5, 0.0]], ac.Gaussian(0.25))
    targets = Hunt(system_of(run, network, ac.Memory(), N), Clean.of(run, [0], inputs), QUICK).base
    u = torch.tensor([[0.9, 0.0]])
    assert torch.equal(targets.settled(u, 1.0), u)
    far = replace(targets, axes=torch.full_like(targets.axes, 1e39))
    with pytest.raises(ArgumentError, match="that float32 can hold"):
        far.settled(u, 1.0)


@pytest.fixture
def coded(bands):
    """A classifier, a selector and a codebook with known shares, and a smooth network to search with."""

    class Smooth(nn.Module):
        def forward(self, x):
            return torch.stack([x[:, 0], -x[:, 0]], 1)

    classifier, selector = bands([1.0, 0.0], [0.0], [1, 0], 2), bands([0.0, 1.0], [0.0], [1, 0], 2)
    model = ac.Coded(classifier, selector, ac.Codebook([0.2, 0.4], 0.5)).eval()
    return model, replace(QUICK, guide=ac.Network(Smooth().eval(), 2))


def test_a_selector_is_one_classifier_which_is_not_answered_otherwise(made, coded):
    """The composed classifier has the classifier's plane, whichever code is named, so that the radius is known."""
    model, how = coded
    files = {"codebook": "c.safetensors", "selector": "s.safetensors", "sigma": 0.5}
    x = [[0.5, 0.8], [-0.7, -0.9], [0.6, 1.0]]
    run, network, inputs = made(model, x, ac.Gaussian(0.5), ac.Selected(), **files)
    assert (run.column("radius") > 0.2).all()
    found = attack_first(run, network, inputs, radii=[0.3, 0.8], how=how, n=N)
    assert (found.found.otherwise_inside(), found.failed) == (0, False)
    assert found.found.expected >= 3 * 0.001
    assert found.found.withstood.sum(0).tolist() == [3, 3, 0]


@pytest.fixture
def cascade(bands):
    """Two networks with planes across different coordinates, of which the first has no majority at x[1] = 0."""
    first = bands([0.0, 1.0], [-0.34, 0.0, 0.34], [2, 3, 1, 0], 4)
    second = bands([1.0, 0.0], [0.0], [1, 0], 4)
    return ac.Coded([second, first], None, ac.Codebook([0.25, 0.5], 0.5)).eval()


class Smoother(nn.Module):
    """Gradients across both coordinates, as the bands have none."""

    def forward(self, x):
        return torch.stack([x[:, 0] + x[:, 1], -x[:, 0], -x[:, 1], -x[:, 1]], 1)


def test_a_cascade_is_one_classifier_which_is_not_answered_otherwise(made, cascade):
    files, how = {"codebook": "c.safetensors", "sigma": 0.5}, replace(QUICK, guide=ac.Network(Smoother().eval(), 4))
    x = [[0.4, 0.0], [-0.4, 0.0], [0.1, 1.2]]
    run, network, inputs = made(cascade, x, ac.Gaussian(0.5), ac.Cascade(), labels=[0, 1, 0], classes=4, **files)
    assert run.column("codes").tolist() == ["1,0", "1,0", "1"]
    assert (run.column("radius") > 0.15).all()
    found = attack_first(run, network, inputs, radii=[0.1, 2.0], how=how, n=N)
    assert (found.found.otherwise_inside(), found.failed) == (0, False)
    assert found.found.withstood.sum(0).tolist() == [3, 3, 0]


def test_the_network_of_the_answering_code_is_attacked(cascade):
    """Its plane lies at 0.4 across the first coordinate, where the other network has none."""
    network = ac.Network(cascade, 4)
    found = ac.certify(
        network, np.float32([[0.4, 0.0], [0.1, 1.2]]), smoothing=ac.Gaussian(0.5), method=ac.Cascade(),
        num_classes=4, plan=ac.Plan(n=5000),
    )  # fmt: skip
    targets = Targets.of(network, found, 0)
    assert targets.code.tolist() == [0, 1]
    across = torch.tensor([[0.05, 0.0], [0.05, 1.2]], dtype=torch.float32)
    counts = targets.votes(across, [1000], Stage.REFUTE)
    assert counts[0, 0] < 700 < counts[1, 0]
    with pytest.raises(ArgumentError, match=r"got cascade, whose answer depends .* use attack_first"):
        attack(network, found)  # what other codes say would not be seen


def test_two_steps_have_no_noise_that_a_search_could_follow(made, coded):
    model, how = coded
    files = {"codebook": "c.safetensors", "selector": "s.safetensors", "sigma": 0.5}
    run, network, inputs = made(model, [[0.5, 0.8]], ac.Gaussian(0.5), ac.TwoStep(), **files)
    with pytest.raises(ArgumentError, match="got two-step, whose noise is chosen anew for every vote"):
        attack_first(run, network, inputs, how=how)
