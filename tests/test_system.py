"""The deployed classifier: promises are kept, noise is fresh, lucky votes cannot be waited for."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import anisocert as ac
from anisocert.bounds import lifetime_alpha
from anisocert.certificate import ABSTAIN
from anisocert.engine import Query
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.memory import ChangedError
from anisocert.models import Denoised, Normalized

SECRET = b"known to no client"
PLAN = ac.Plan(n=300)


class Waves(nn.Module):
    """Two classes that every smoothed point gets equally often, in waves far narrower than the noise."""

    def forward(self, x: Tensor) -> Tensor:
        height = torch.sin(30 * x).sum(1)
        return torch.stack([height, -height], 1)


class SettledByFirst(nn.Module):
    """Multiplies by what its first call was, for good."""

    scale: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.scale = 1 + x.detach().mean() ** 2 if self.scale is None else self.scale
        return torch.stack([self.scale * x[:, 0], 0.1 + 0 * x[:, 0]], 1)


class SettledBySearch(nn.Module):
    """Takes off what it first sees with gradients, for good."""

    mean: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad and self.mean is None:
            self.mean = x.detach().mean(0)
        height = (x - (0 if self.mean is None else 8 * self.mean)).sum(1)
        return torch.stack([height, -height], 1)


@pytest.fixture
def system(half_space) -> Callable[..., ac.System]:
    def make(side: float = 1.0, **options: object) -> ac.System:
        """side: -1 for the network that answers everything otherwise."""
        given = {"num_classes": 2, "smoothing": ac.Gaussian(0.5), "secret": SECRET, "plan": PLAN}
        return ac.System(half_space([side, 0.0]).eval(), **given | options)

    return make


def point(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_an_answer_is_kept_on_its_whole_region_without_asking_again(system):
    deployed = system(method=ac.Isotropic())
    first = deployed.answer(point(1.0, 0.0))
    assert (first.prediction, first.note) == (0, "kept")
    inside = point(1.0 - 0.9 * first.radius, 0.0)
    again = deployed.answer(inside)
    assert (again.prediction, again.note, again.id) == (0, "inherited", first.id)
    assert deployed.memory.submissions == 1
    assert deployed.answer(point(-1.0, 0.0)).prediction == 1


def test_noise_is_never_the_same_twice(system):
    deployed = [system(), system()]
    asked = [one.answer(point(0.0, x)) for one in deployed for x in (0.0, 1.0, 2.0)]
    assert len({c.id for c in asked}) == len({c.seed for c in asked}) == 6
    assert all(0 <= c.id < 2**60 and 0 <= c.seed < 2**64 for c in asked)


def test_a_client_cannot_adapt_inputs_to_the_noise(within_rate):
    """Climbing on the votes finds a false certificate where noise is used again, and none beyond alpha where not."""
    network, noise, alpha = ac.Network(Waves().eval(), 2), ac.Gaussian(1.0), 0.001
    deployed = ac.System(network, smoothing=noise, secret=SECRET, plan=PLAN)

    def climb(ask: Callable[[np.ndarray], ac.Certificate]) -> int:
        random, x, best, false = np.random.default_rng(0), np.zeros(40, np.float32), 0, 0
        for _ in range(400):
            if not within_rate(false, 400, alpha):
                break  # so many already tell
            candidate = (x + random.normal(0, 0.02, 40)).astype(np.float32)
            found = ask(candidate)
            false += found.prediction >= 0
            if found.top_votes >= best:
                x, best = candidate, found.top_votes
        return false

    def reused(x: np.ndarray) -> ac.Certificate:
        return ac.certify(network, x[None], smoothing=noise, plan=PLAN, seed=3)[0]

    assert not within_rate(climb(reused), 400, alpha)
    assert within_rate(climb(deployed.answer), 400, alpha)


def test_one_input_is_asked_about_only_so_often(system):
    hopeless, deployed = point(0.0, 0.0), system(attempts=3)
    answers = [deployed.answer(hopeless) for _ in range(5)]
    assert [c.prediction for c in answers] == [-1] * 5
    assert [c.votes for c in answers] == [300, 300, 300, 0, 0]
    assert "drawn 3 times before" in answers[-1].reason
    assert deployed.memory.attempts(hopeless) == 3
    assert deployed.answer(point(2.0, 0.0)).prediction == 0


def test_an_input_that_was_refused_still_inherits(system):
    deployed = system()
    near = point(0.0, 0.0)
    assert [deployed.answer(near).prediction for _ in range(2)] == [-1, -1]
    promise = deployed.answer(point(0.3, 0.0))
    covering = ac.Region(promise.region.center, promise.region.axes, 2)
    assert deployed.answer(near).prediction == (0 if covering.contains(near) else -1)


def test_another_plan_is_the_same_system(system):
    deployed = system()
    shorter = deployed.with_plan(ac.Plan(n=100))
    found = shorter.answer(point(2.0, 0.0))
    assert (found.votes, deployed.plan.n) == (100, 300)
    assert deployed.answer(point(2.0, 0.0)).id == found.id
    for wrong in (100, None):
        with pytest.raises(ArgumentError, match="expected plan as in"):
            deployed.with_plan(wrong)


def test_a_network_is_probed_once_for_all_plans(system, monkeypatch):
    """For each probe it is copied: a service would do that with every batch."""
    deployed, probe, shapes = system(), ac.Network.probe, []
    monkeypatch.setattr(ac.Network, "probe", lambda network, shape: (shapes.append(shape), probe(network, shape))[1])
    for x in (1.0, -1.0, 2.0):
        deployed.with_plan(ac.Plan(n=200)).answer(point(x, 0.0))
    assert shapes == [(2,)]


def test_a_lifetime_memory_gets_a_number_before_each_question(system, tmp_path):
    with ac.Memory.open(tmp_path / "m.sqlite", lifetime=0.01) as memory:
        deployed = system(memory=memory)
        asked = [deployed.answer(point(2.0 * sign, 10.0 * i)) for i, sign in enumerate((1, -1, 1))]
        assert [c.alpha for c in asked] == [lifetime_alpha(0.01, i) for i in (1, 2, 3)]
        assert memory.check().ok


def test_a_search_without_gradients_costs_no_input_its_attempt(half_space, tmp_path):
    """It fails on every input, before any vote: none is to be counted, nor to be numbered in a lifetime's alpha."""
    network, point_ = half_space([1.0, 0.0]).eval(), point(2.0, 0.0)
    given = {"num_classes": 2, "smoothing": ac.Gaussian(0.5), "secret": SECRET, "plan": PLAN, "model_id": "box"}
    with ac.Memory.open(tmp_path / "m.sqlite", lifetime=0.01) as memory:
        box = ac.System(torch.no_grad()(network.forward), method=ac.Anisotropic(), memory=memory, **given)
        with pytest.raises(ModelError, match=r"got a black box: use Isotropic\(\)"):
            box.answer(point_)
        assert (memory.stats().submissions, memory.stats().numbers) == (0, 0)
        voting = ac.System(torch.no_grad()(network.forward), method=ac.Isotropic(), memory=memory, **given)
        assert voting.answer(point_).note == "kept"


def test_what_is_promised_is_answered_beside_what_the_network_cannot_be_asked(half_space):
    """That was no attempt; what the network can be asked is settled once, also under other plans."""
    asked, network = [], half_space([1.0, 0.0]).eval()
    given = {"num_classes": 2, "smoothing": ac.Gaussian(0.5), "secret": SECRET, "plan": PLAN, "model_id": "box"}
    memory, box = ac.Memory(), torch.no_grad()(network.forward)
    promised, fresh = point(2.0, 0.0), point(-9.0, 0.0)
    ac.System(box, method=ac.Isotropic(), memory=memory, **given).answer(promised)
    found = ac.System(box, method=ac.Anisotropic(), memory=memory, **given).answers(np.stack([promised, fresh]))
    assert found[0].prediction == 0
    assert (found[1].prediction, memory.stats().submissions) == (ABSTAIN, 1)
    assert "got a black box" in found[1].reason

    system = ac.System(network, method=ac.Anisotropic(), memory=memory, **given)
    system.network.on_rows = lambda rows, gradients: asked.append(gradients)
    for _ in range(2):
        asked.clear()
        system.with_plan(PLAN).expect_able((2,), 1)
    assert not asked


def test_what_a_network_is_asked_first_is_looked_at_before_its_gradients_are(tmp_path):
    given = {"num_classes": 2, "smoothing": ac.Gaussian(0.5), "secret": SECRET, "plan": PLAN}
    with ac.Memory.open(tmp_path / "m.sqlite", lifetime=0.01) as memory:
        settled = ac.System(SettledByFirst().eval(), method=ac.Anisotropic(), memory=memory, **given)
        with pytest.raises(ModelError, match="depend on what the network was asked first"):
            settled.answer(point(2.0, 0.0))
        assert (memory.stats().submissions, memory.stats().numbers) == (0, 0)


def test_a_network_that_gradients_change_is_promised_nothing():
    """Its rewritten form stays as it was: that they differ is no reason to let the changed one vote instead."""
    given = {"smoothing": ac.Gaussian(0.5), "secret": SECRET, "plan": PLAN, "num_classes": 2}
    assert ac.System(SettledBySearch().eval(), **given).answer(point(1.0, 1.0)).prediction == 0
    searching = ac.System(SettledBySearch().eval(), method=ac.Anisotropic(), **given)
    with pytest.raises(ModelError, match="expected the same scores for an input in every call"):
        searching.answer(point(1.0, 1.0))


def test_a_memory_of_another_network_is_refused(system, tmp_path):
    with ac.Memory.open(tmp_path / "m.sqlite") as memory:
        system(memory=memory, model_id="mine").answer(point(2.0, 0.0))
        with pytest.raises(ArgumentError, match="answers differently under the same hash"):
            system(-1.0, memory=memory, model_id="mine")


def test_another_shape_than_was_asked_first_is_not_blamed_on_the_network_alone():
    """While nothing is promised, no memory says which shape it is of; afterwards it does."""
    waves = ac.System(Waves().eval(), num_classes=2, smoothing=ac.Gaussian(0.5), secret=SECRET, plan=PLAN)
    assert waves.answer(point(0.3, 0.2)).prediction == ABSTAIN
    with pytest.raises(ArgumentError, match=r"under the same hash, .*, or is asked about inputs of another shape: use"):
        waves.answer(point(0.3, 0.2, 0.1))
    promised = ac.System(Waves().eval(), num_classes=2, smoothing=ac.Gaussian(0.02), secret=SECRET, plan=PLAN)
    assert promised.answer(point(0.05, 0.05)).prediction == 0
    with pytest.raises(ArgumentError, match="expected an input of shape"):
        promised.answer(point(0.3, 0.2, 0.1))


def test_a_named_network_in_other_numerics_is_another(system, tmp_path):
    """Else one memory would hold promises of two classifiers, as after a move to a device with another default."""
    with ac.Memory.open(tmp_path / "m.sqlite") as memory:
        system(memory=memory, model_id="mine", numerics=ac.Numerics("bfloat16")).answer(point(2.0, 0.0))
        for other in (ac.Numerics("float32"), ac.Numerics("bfloat16", grid=0.0), ac.Numerics("float32", grid=0.0)):
            with pytest.raises(ArgumentError, match=r"model mine, bfloat16 on grid 2\^-12, .*--precision, --grid"):
                system(memory=memory, model_id="mine", numerics=other)
            with pytest.raises(ArgumentError, match="precision and grid were added already"):
                system(memory=memory, model_id=memory.stats().model_hash, numerics=other)


def test_some_inputs_at_once_are_answered_like_one(half_space):
    """Known ones by their promise, the others by shared network calls; each has noise, and an attempt, of its own."""
    calls = list[int]()

    class Counting(type(half_space([1.0, 0.0]))):
        def forward(self, x: Tensor) -> Tensor:
            calls.append(len(x))
            return super().forward(x)

    network = ac.Network(Counting([1.0, 0.0]).eval(), 2, numerics=ac.Numerics("float32", False, 3200))
    deployed = ac.System(network, smoothing=ac.Gaussian(0.5), secret=SECRET, plan=PLAN)
    known = deployed.answer(point(1.0, 0.0))
    calls.clear()
    deployed.answer(point(1.0, -30.0))
    alone, before = list(calls), deployed.memory.submissions
    calls.clear()
    batch = np.stack([point(1.1, 0.0), point(0.0, 30.0), point(-1.0, 60.0), point(1.0, 90.0), point(-0.0, 30.0)])
    found = deployed.answers(batch)
    assert [c.prediction for c in found] == [0, -1, 1, 0, -1]
    assert [c.note for c in found] == ["inherited", "abstained", "kept", "kept", "abstained"]
    assert found[0].id == known.id
    assert found[1] is found[4]  # the same input: not asked about twice
    assert len({c.id for c in found}) == 4
    assert deployed.memory.submissions == before + 3
    assert calls == alone
    notes = ["inherited", "abstained", "inherited", "inherited", "abstained"]
    assert [c.note for c in deployed.answers(batch)] == notes
    assert deployed.memory.submissions == before + 3
    assert deployed.memory.attempts(batch[1]) == 1


def test_a_promise_made_to_one_holds_for_another_that_came_with_it(system):
    """Also for one whose attempts were used up before."""
    deployed, near = system(plan=ac.Plan(n=5)), point(0.2, 0.0)
    with pytest.warns(AnisocertWarning):  # so few votes certify nothing
        assert deployed.answer(near).prediction == -1
    deployed.plan = ac.Plan(n=2000)
    promise, covered = deployed.answers(np.stack([point(0.6, 0.0), near]))
    assert promise.region.contains(near)
    assert (covered.prediction, covered.note, covered.id) == (0, "inherited", promise.id)


def test_after_a_reset_a_memory_still_belongs_to_one_network(system, tmp_path):
    path = tmp_path / "m.sqlite"
    with ac.Memory.open(path) as memory, ac.Memory.open(path) as same:
        deployed = system(memory=memory, model_id="mine")
        other = system(-1.0, memory=same, model_id="mine")
        deployed.answer(point(2.0, 0.0))
        same.reset()
        assert deployed.answer(point(2.0, 0.0)).note == "kept"
        with pytest.raises(ArgumentError, match="answers differently under the same hash"):
            other.answer(point(2.0, 50.0))


def test_promises_of_another_network_are_not_told_as_ones_own(system, tmp_path):
    """Also where the memory was empty when the system was made, or has been emptied since."""
    path = tmp_path / "m.sqlite"
    with ac.Memory.open(path) as memory, ac.Memory.open(path) as same:
        deployed = system(memory=memory)
        other = system(-1.0, memory=same)
        for first, second, prediction in ((deployed, other, 0), (other, deployed, 1)):
            assert first.answer(point(2.0, 0.0)).prediction == prediction
            with pytest.raises(ChangedError, match="another process began with it"):
                second.answer(point(2.0, 0.01))
            memory.reset()


def test_promises_of_another_norm_are_not_told_as_ones_own(system, tmp_path):
    """A radius in l1 says less than the same one in l2; and what no memory takes is refused before any vote."""
    path = tmp_path / "m.sqlite"
    with ac.Memory.open(path) as memory, ac.Memory.open(path) as same:
        early = system(memory=same)
        assert system(memory=memory, smoothing=ac.Uniform(0.5)).answer(point(2.0, 0.0)).norm == 1
        with pytest.raises(ArgumentError, match="expected a memory for norm l2"):
            system(memory=same)
        with pytest.raises(ChangedError, match="another process began with it"):
            early.answer(point(2.0, 0.01))
        with pytest.raises(ArgumentError, match="expected a memory for norm l2"):
            early.answer(point(-2.0, 0.0))


def test_a_reset_while_votes_are_drawn_lets_no_second_network_in(system, tmp_path):
    path = tmp_path / "m.sqlite"

    class Meanwhile(ac.Fixed):
        """Between what the memory is told of the network, and what it is told of the votes."""

        def choose(self, query: Query, plan: ac.Plan) -> Tensor:
            if len(memory):
                same.reset()
                other.answer(point(2.0, 0.0))
            return super().choose(query, plan)

    with ac.Memory.open(path) as memory, ac.Memory.open(path) as same:
        deployed = system(memory=memory, model_id="mine", method=Meanwhile())
        other = system(-1.0, memory=same, model_id="mine")
        deployed.answer(point(2.0, 0.0))
        with pytest.raises(ArgumentError, match="answers differently under the same hash"):
            deployed.answer(point(2.0, 50.0))
        assert [c.prediction for c in memory.entries()] == [1]


@pytest.fixture
def fragile(half_space) -> ac.Network:
    """Fails on inputs beyond 5000."""

    class Fragile(type(half_space([1.0, 0.0]))):
        def forward(self, x: Tensor) -> Tensor:
            if (x[:, 1] > 5000).any():
                raise IndexError("beyond 5000")
            return super().forward(x)

    return ac.Network(Fragile([1.0, 0.0]).eval(), 2)


@pytest.mark.parametrize("lifetime", [None, 0.01])
@pytest.mark.parametrize("noise", [ac.Gaussian(0.5), ac.GaussianMixture([0.5, 0.5], [0.4, 0.6]), ac.Uniform(0.5)])
def test_an_input_on_which_the_network_fails_takes_no_answer_away(fragile, lifetime, noise):
    memory, good, bad = ac.Memory(lifetime=lifetime), point(2.0, 0.0), point(0.0, 6000.0)
    deployed = ac.System(fragile, smoothing=noise, secret=SECRET, plan=PLAN, memory=memory)
    found = deployed.answers(np.stack([good, bad, bad]))
    assert [(c.prediction, c.note) for c in found] == [(0, "kept"), (-1, "abstained"), (-1, "abstained")]
    assert found[1].reason == "the network failed: IndexError('beyond 5000')"
    assert (memory.submissions, memory.attempts(good), memory.attempts(bad)) == (4, 2, 2)  # together, then alone
    if lifetime is not None:
        assert [c.alpha for c in found[:2]] == [lifetime_alpha(lifetime, i) for i in (3, 4)]
    assert [c.prediction for c in deployed.answers(np.stack([good, point(0.0, 7000.0)]))] == [0, -1]  # a known one, too
    assert memory.check().ok


@pytest.mark.parametrize("lifetime", [None, 0.01])
def test_a_failure_is_counted_and_an_error_where_nothing_is_answered(fragile, lifetime):
    memory = ac.Memory(lifetime=lifetime)
    deployed = ac.System(fragile, smoothing=ac.Gaussian(0.5), secret=SECRET, plan=PLAN, memory=memory, attempts=2)
    x = np.stack([point(0.0, 6000.0), point(0.0, 7000.0)])
    for _ in range(2):
        with pytest.raises(IndexError, match="beyond 5000"):
            deployed.answer(x[0])
    assert "drawn 2 times before" in deployed.answer(x[0]).reason
    with pytest.raises(IndexError, match="beyond 5000"):
        deployed.propose(x)
    assert [memory.attempts(one) for one in x] == [4, 2]


def test_votes_of_a_question_that_was_interrupted_are_counted(system):
    class Stopped(ac.Fixed):
        def choose(self, query: Query, plan: ac.Plan) -> Tensor:
            raise KeyboardInterrupt

    deployed, x = system(method=Stopped()), np.stack([point(2.0, 0.0), point(-2.0, 0.0)])
    with pytest.raises(KeyboardInterrupt):
        deployed.answers(x)
    assert [deployed.memory.attempts(one) for one in x] == [1, 1]


def test_votes_of_inputs_asked_alone_before_an_interruption_are_counted(system):
    """Together the network fails; alone the first is certified, and the second interrupted."""

    class Failing(ac.Fixed):
        asked = 0

        def choose(self, query: Query, plan: ac.Plan) -> Tensor:
            type(self).asked += 1
            if self.asked == 1:
                raise IndexError("together")
            if self.asked == 3:
                raise KeyboardInterrupt
            return super().choose(query, plan)

    deployed, x = system(method=Failing()), np.stack([point(2.0, 0.0), point(-2.0, 0.0)])
    with pytest.raises(KeyboardInterrupt):
        deployed.answers(x)
    assert [deployed.memory.attempts(one) for one in x] == [2, 2]
    assert deployed.memory.check().ok


def test_a_promise_is_told_while_others_wait_for_the_network(system):
    deployed = system()
    promise = deployed.answer(point(1.0, 0.0))
    with ThreadPoolExecutor() as pool, deployed._turn:
        assert pool.submit(deployed.answer, point(1.05, 0.0)).result(timeout=20).id == promise.id


def test_an_input_is_looked_up_once_unless_the_network_was_busy(system):
    looked_up = list[np.ndarray]()

    class Watched(ac.Memory):
        def lookup_all(self, x):
            looked_up.extend(x := list(x))
            return super().lookup_all(x)

    deployed = system(memory=Watched())
    promise = deployed.answer(point(1.0, 0.0))
    assert len(looked_up) == 1
    assert deployed.answer(point(1.05, 0.0)).id == promise.id
    assert len(looked_up) == 2
    with ThreadPoolExecutor() as pool:
        with deployed._turn:  # while this thread promises something, another asks about what it will cover
            waiting = pool.submit(deployed.answer, point(1.0, 50.0))
            while len(looked_up) < 3:
                time.sleep(0.001)
            promise = deployed.answer(point(1.0, 50.1))
        assert waiting.result(timeout=20).id == promise.id
    assert len(looked_up) == 5
    assert deployed.memory.submissions == 2


@pytest.mark.parametrize("policy", ["inherit", "abstain", "worst-case"])
def test_inputs_that_come_together_do_not_contradict_each_other(system, policy):
    deployed = system(memory=ac.Memory(policy))
    x = np.stack([point(0.05 * i, 0.0) for i in range(-10, 11)])
    found = deployed.answers(x)
    for c, one in zip(found, x, strict=True):
        promised = deployed.memory.lookup(one)
        assert c.prediction == (-1 if promised is None else promised.prediction)
    assert {c.prediction for c in found} >= {0, 1}
    assert deployed.memory.check().ok


def test_inputs_that_come_together_have_numbers_of_their_own(system, tmp_path):
    with ac.Memory.open(tmp_path / "m.sqlite", lifetime=0.01) as memory:
        found = system(memory=memory).answers(np.stack([point(2.0, 10.0 * i) for i in range(4)]))
        assert [c.alpha for c in found] == [lifetime_alpha(0.01, i) for i in (1, 2, 3, 4)]
        assert memory.check().ok


def test_a_batch_without_inputs_is_refused(system):
    for x in (np.zeros((0, 2), np.float32), point(1.0, 2.0)):
        with pytest.raises(ArgumentError, match=r"expected x of shape \(inputs, \*shape\) with at least one input"):
            system().answers(x)


def test_many_threads_get_one_answer(system):
    deployed = system()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(deployed.answer, [point(1.0, 0.0)] * 8))
    assert {c.prediction for c in answers} == {0}
    assert len({c.id for c in answers}) == 1
    assert deployed.memory.submissions == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"secret": b"short"}, "expected secret as at least 16 bytes"),
        ({"secret": "a text of enough letters"}, "expected secret as at least 16 bytes"),
        ({"memory": "m.sqlite"}, r"memory=ac.Memory.open\('m.sqlite'\), got 'm.sqlite'"),
        ({"smoothing": 0.25}, r"smoothing=ac.Gaussian\(0.25\), got 0.25"),
        ({"method": "fixed"}, "expected method as in method=ac.Fixed"),
        ({"plan": {"n": 100}}, "expected plan as in plan=ac.Plan"),
        ({"attempts": 0}, "expected attempts, a whole number >= 1, got 0"),
    ],
)
def test_what_cannot_be_is_said(system, options, words):
    with pytest.raises(ArgumentError, match=words):
        system(**options)


@pytest.mark.parametrize("x", [np.float32(3), np.zeros((0, 2), np.float32)])
def test_inputs_without_values_are_refused(system, x):
    with pytest.raises(ArgumentError, match="at least one dimension"):
        system().answer(x)


def test_inputs_that_would_be_rounded_are_refused(system):
    with pytest.raises(ArgumentError, match="float32 holds exactly"):
        system().answer(np.array([0.1, 0.2]))


def test_what_is_no_fault_of_the_network_is_not_called_one(system):
    """An input outside the domain of the method, beside one inside."""
    deployed = system(smoothing=ac.Gaussian(0.1), method=ac.Anisotropic(domain=(0.0, 1.0)))
    inside, outside = deployed.answers(np.stack([point(0.9, 0.5), point(0.9, 1.5)]))
    assert inside.prediction == 0
    assert outside.reason.startswith("no certificate was made: expected inputs in their domain, 0 to 1, got")


def test_what_is_not_in_the_networks_units_is_promised_nothing(half_space):
    """Pixels of 0 to 255, say: the network would answer them all alike, and a memory would be bound by it."""
    network = Normalized(half_space([1.0, 0.0]).eval(), (0.5, 0.5), (0.25, 0.25))
    deployed = ac.System(network, num_classes=2, smoothing=ac.Gaussian(0.25), secret=SECRET, plan=PLAN)
    right, wrong = deployed.answers(np.stack([point(0.9, 0.5), point(0.9 * 255, 127.0)]))
    assert (right.prediction, wrong.prediction) == (0, ABSTAIN)
    assert "expected inputs in the network's units" in wrong.reason
    assert (len(deployed.memory), deployed.memory.submissions) == (1, 1)
    with pytest.warns(AnisocertWarning, match="in the network's units, .* from 127 to 229"):
        ac.certify(network, [[0.9 * 255, 127.0]], num_classes=2, smoothing=ac.Gaussian(0.25), plan=PLAN)


@pytest.mark.parametrize("around", ["codebook", "denoiser", "both"])
def test_units_are_known_of_a_network_behind_a_codebook_or_a_denoiser(half_space, around):
    network: nn.Module = Normalized(half_space([1.0, 0.0]).eval(), (0.5, 0.5), (0.25, 0.25))
    if around != "codebook":
        network = Denoised(network, nn.Identity().eval())
    method = ac.Fixed() if around == "denoiser" else ac.Cascade()
    if around != "denoiser":
        network = ac.Coded(network, None, ac.Codebook([0.25, 0.125], 0.25))
    given = {"num_classes": 2, "smoothing": ac.Gaussian(0.25), "secret": SECRET, "plan": PLAN}
    deployed = ac.System(network, method=method, **given)
    right, wrong = deployed.answers(np.stack([point(0.9, 0.5), point(0.9 * 255, 127.0)]))
    assert (right.prediction, wrong.prediction) == (0, ABSTAIN)
    assert "expected inputs in the network's units" in wrong.reason


def test_systems_on_one_network_take_turns_with_it(half_space):
    """A network is fitted to one shape of inputs at a time."""

    class Means(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            height = 4 * x.flatten(1).mean(1)
            return torch.stack([height, -height], 1)

    network = ac.Network(Means().eval(), 2)
    asked = [
        ac.System(network, smoothing=noise, secret=SECRET, plan=PLAN) for noise in (ac.Gaussian(0.5), ac.Uniform(0.5))
    ]

    def answers(i: int) -> list[int]:
        return [asked[i].answer(np.full((1, 4 + i, 4), k, np.float32)).prediction for k in range(1, 9)]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(answers, range(2))) == [[0] * 8] * 2
