"""The cases of admit, one by one, in scenes where the right answer is plain."""

from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.geometry import Region, disjoint, superset
from anisocert.memory import Memory

NORMS = pytest.mark.parametrize("norm", [1, 2])
POLICIES = pytest.mark.parametrize("policy", ["inherit", "abstain", "worst-case"])


@POLICIES
@NORMS
def test_far_apart_is_kept_as_it_is(open_memory, proposal, policy, norm):
    memory = open_memory(policy)
    for i in range(3):
        proposed = proposal(i, i, [10.0 * i, 0.1], [1 / 3, 2.0], norm)
        answer = memory.admit(proposed)
        assert answer.note == "kept"
        assert answer.region == proposed.region
        assert (answer.prediction, answer.gap, answer.radius) == (i, proposed.gap, 1 / 3)
    assert len(memory) == 3
    assert memory.check().ok


@NORMS
def test_same_class_may_overlap(open_memory, proposal, norm):
    memory = open_memory()
    memory.admit(proposal(0, 1, [0, 0], [1, 2], norm))
    # Also where it lies in the stored region: its own one is stored in full.
    answer = memory.admit(proposal(1, 1, [0.5, 0], [3, 1], norm))
    assert answer.note == "kept"
    assert answer.region == Region([0.5, 0], [3, 1], norm)
    assert len(memory) == 2


@pytest.mark.parametrize(
    ("policy", "note"), [("inherit", "shrunk"), ("abstain", "shrunk"), ("worst-case", "abstained")]
)
@NORMS
def test_meeting_another_class(open_memory, proposal, policy, note, norm):
    memory = open_memory(policy)
    first = memory.admit(proposal(0, 0, [0, 0], [1, 1], norm))
    proposed = proposal(1, 1, [1.5, 0], [1, 1], norm)
    answer = memory.admit(proposed)
    assert answer.note == note
    if note == "shrunk":
        assert answer.prediction == 1
        assert answer.region.radius == pytest.approx(0.5, rel=1e-6)
        assert superset(proposed.region, answer.region)
        assert disjoint(first.region, answer.region)
        assert disjoint(answer.region, first.region)
        assert len(memory) == 2
    else:
        assert (answer.prediction, answer.radius, answer.gap, answer.region) == (-1, 0.0, 0.0, None)
        assert "another class" in answer.reason
        assert len(memory) == 1


@NORMS
def test_own_class_around_it_shrinks_against_others_only(open_memory, proposal, norm):
    memory = open_memory()
    memory.admit(proposal(0, 0, [0, 0], [1, 1], norm))
    memory.admit(proposal(1, 1, [3, 0], [1, 1], norm))
    answer = memory.admit(proposal(2, 0, [0.5, 0], [2, 2], norm))
    assert answer.note == "shrunk"
    assert answer.region.enclosing_radius > 1  # reaches beyond the region it lies in
    assert answer.region.axes[0] == pytest.approx(1.5, rel=1e-6)
    assert memory.check().ok
    assert len(memory) == 3


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(
    ("policy", "note"), [("inherit", "inherited"), ("abstain", "abstained"), ("worst-case", "abstained")]
)
@NORMS
def test_inside_another_class(open_memory, proposal, policy, note, answers, norm):
    memory = open_memory(policy)
    stored = memory.admit(proposal(7, 2, [0, 0], [1, 2], norm))
    answer = memory.admit(proposal(8, 0, [0.25, 0], [0.1, 0.1] if answers else None, norm))
    assert answer.note == note
    assert answer.id == 8
    assert len(memory) == 1
    if note == "inherited":
        assert answer.prediction == 2
        assert answer.region.center.tolist() == [0.25, 0]
        assert answer.region.axes == pytest.approx(stored.region.axes * 0.75, rel=1e-9)
        assert superset(stored.region, answer.region)
        assert "input 7" in answer.reason
        # The evidence is that of the promise.
        assert (answer.p_a, answer.votes, answer.seed) == (stored.p_a, stored.votes, stored.seed)
    else:
        assert (answer.prediction, answer.region) == (-1, None)


def test_inherits_the_largest_copy(open_memory, proposal):
    memory = open_memory()
    memory.admit(proposal(0, 1, [0, 0], [1, 1]))
    memory.admit(proposal(1, 1, [1, 0], [2, 2]))
    memory.admit(proposal(2, 1, [0, 1], [1, 1]))
    answer = memory.admit(proposal(3, 0, [0.5, 0], [1, 1]))
    assert answer.region.radius == pytest.approx(1.5)
    assert "input 1" in answer.reason
    assert memory.lookup([0.5, 0.0]).id == 1


@POLICIES
def test_abstention_outside_is_no_promise(open_memory, proposal, policy):
    memory = open_memory(policy)
    proposed = replace(proposal(0, 0, [0, 0]), reason="not enough votes")
    answer = memory.admit(proposed)
    assert (answer.prediction, answer.note, answer.reason, len(memory)) == (-1, "abstained", "not enough votes", 0)
    # Somebody else may be promised a region around it, and then the answer is theirs.
    memory.admit(proposal(1, 2, [0.5, 0], [1, 1]))
    again = memory.admit(proposed)
    assert (again.prediction, again.note) == ((2, "inherited") if policy == "inherit" else (-1, "abstained"))


@NORMS
def test_no_room(open_memory, proposal, norm):
    memory = open_memory()
    memory.admit(proposal(0, 0, [0, 0], [np.nextafter(1.0, 0.0), 1], norm))
    answer = memory.admit(proposal(1, 1, [1.0, 0], [1, 1], norm))  # outside, by the last bit
    assert (answer.note, answer.prediction, len(memory)) == ("abstained", -1, 1)


def test_no_room_in_a_region_of_its_own_class_inherits(open_memory, proposal):
    # The input is covered by a promise of its class, whose border touches another class to the last bit.
    memory = open_memory()
    memory.admit(proposal(0, 0, [0.0], [1.0]))
    second = memory.admit(proposal(1, 1, [2.0], [1.0]))
    edge = np.float32(second.region.center[0] - second.region.axes[0])
    edge = next(x for x in (edge, np.nextafter(edge, np.float32(3))) if second.region.contains([x]))
    answer = memory.admit(proposal(2, 1, [edge], [1.0]))
    assert answer.prediction == 1
    assert memory.check().ok


@pytest.mark.parametrize("method", ["lookup", "admit"])
def test_boundary_belongs_to_the_region(open_memory, proposal, method):
    memory = open_memory()
    memory.admit(proposal(0, 2, [0, 0], [1, 2]))

    def ask(i, x):
        return memory.lookup(x) if method == "lookup" else memory.admit(proposal(i, 0, x))

    answer = ask(1, [1.0, 0.0])
    assert (answer.prediction, answer.region, answer.radius, answer.note) == (2, None, 0.0, "inherited")
    beyond = ask(2, [np.nextafter(np.float32(1), np.float32(2)), np.float32(0)])
    assert beyond is None or beyond.prediction == -1


def test_prefer_ball(open_memory, proposal):
    answers = {}
    for prefer in ("volume", "ball"):
        memory = open_memory(prefer=prefer)
        memory.admit(proposal(0, 0, [0.0, 0.0], [2.0, 1.0]))
        answers[prefer] = memory.admit(proposal(1, 1, [2.0, 2.0], [1.5, 9.0]))
        assert answers[prefer].note == "shrunk"
        assert memory.check().ok
    assert answers["volume"].proxy_radius > answers["ball"].proxy_radius
    assert answers["volume"].radius < answers["ball"].radius


@POLICIES
def test_other_votes_about_a_stored_input_get_its_promise_and_not_their_own(open_memory, proposal, policy):
    """A run may not be told that its own region was kept, where an earlier one of another size stands."""
    memory = open_memory(policy)
    first = memory.admit(proposal(7, 1, [0, 0], [1, 1]))
    for other in (
        proposal(7, 1, [0, 0], [2, 2]),
        proposal(7, 2, [0, 0], [0.5, 0.5]),
        proposal(7, -1, [0, 0]),
        replace(proposal(7, 1, [0, 0], [1, 1]), seed=9),
    ):
        answer = memory.admit(other)
        assert (answer.note, answer.prediction, answer.region) == ("inherited", 1, first.region)
        assert "answered before" in answer.reason
    assert memory.admit(proposal(7, 1, [0, 0], [1, 1])).note == "kept"
    assert len(memory) == 1


def test_same_id_again_gives_the_stored_answer(open_memory, proposal):
    memory = open_memory()
    memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    first = memory.admit(proposal(1, 1, [1.5, 0], [1, 1]))
    stored = memory.admit(proposal(1, 1, [1.5, 0], [1, 1]))
    assert (stored.note, stored.prediction, stored.region) == ("shrunk", 1, first.region)
    assert len(memory) == 2


def test_one_id_cannot_stand_for_two_inputs(open_memory, proposal):
    memory = open_memory()
    memory.admit(proposal(3, 0, [0, 0], [1, 1]))
    for other in (proposal(3, 0, [5, 0], [1, 1]), proposal(3, 0, [5, 0])):
        with pytest.raises(ArgumentError, match="id of its own"):
            memory.admit(other)


def test_what_belongs_to_another_memory_is_refused_with_the_way_out(open_memory, proposal):
    memory = open_memory()
    memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    way_out = "memory reset" if memory.path else r"new Memory\(\)"
    with pytest.raises(ArgumentError, match=f"another|model.*{way_out}"):
        memory.admit(proposal(1, 0, [9, 0], [1, 1], model_hash="other"))
    with pytest.raises(ArgumentError, match=f"model.*{way_out}"):
        memory.expect("other", np.zeros((1, 2)))
    with pytest.raises(ArgumentError, match=f"l2, got l1.*{way_out}"):
        memory.admit(proposal(1, 0, [9, 0], [1, 1], norm=1))
    for bad in (proposal(1, 0, [9, 0, 0], [1, 1, 1]), proposal(1, 0, [[9, 0]])):
        with pytest.raises(ArgumentError, match="shape"):
            memory.admit(bad)
    with pytest.raises(ArgumentError, match="shape"):
        memory.lookup([0.0, 0.0, 0.0])
    assert len(memory) == 1
    memory.reset()
    assert memory.admit(proposal(1, 0, [9, 0, 0], [1, 1, 1], norm=1, model_hash="other")).note == "kept"


def test_bad_certificates(open_memory, proposal):
    memory = open_memory()
    good = proposal(0, 0, [0, 0], [1, 1])
    with pytest.raises(ArgumentError, match="input in x"):
        memory.admit(replace(good, prediction=-1, region=None, x=None))
    for bad in (replace(good, prediction=-1), replace(good, region=None)):
        with pytest.raises(ArgumentError, match="region"):
            memory.admit(bad)
    assert len(memory) == 0


def test_bad_arguments(tmp_path):
    with pytest.raises(ArgumentError, match=r"worst-case.*got 'best'"):
        Memory("best")
    with pytest.raises(ArgumentError, match="prefer"):
        Memory(prefer="colour")
    with pytest.raises(ArgumentError, match="policy"):
        Memory.open(tmp_path / "m", "best")
    assert not (tmp_path / "m").exists()


def test_tensors_and_public_name(proposal):
    torch = pytest.importorskip("torch")
    memory = ac.Memory()
    assert memory.lookup([1.0]) is None
    memory.admit(proposal(0, 1, np.zeros((2, 3)), np.ones((2, 3))))
    assert memory.lookup(torch.zeros(2, 3, requires_grad=True)).prediction == 1
