"""Random scenes: whatever is admitted in whatever order, all promises can be kept at once."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anisocert.certificate import ABSTAIN
from anisocert.geometry import disjoint, superset
from anisocert.memory import Memory

CASES = [(norm, d) for norm in (1, 2) for d in (2, 3, 7, 20, 50)]


def points_inside(rng, region, count):
    """Random float32 points with a gauge below 1, some close to it."""
    for _ in range(count):
        step = rng.standard_normal(region.dim) * rng.dirichlet(np.ones(region.dim))
        step /= np.linalg.norm(step / 1.0, region.norm)
        point = (region.center + region.axes * step * rng.choice([0.3, 0.9, 1 - 1e-6])).astype(np.float32)
        if region.gauge(point) < 1 - 1e-12:
            yield point


@pytest.mark.parametrize("policy", ["inherit", "abstain", "worst-case"])
@pytest.mark.parametrize(("norm", "d"), CASES)
def test_promises_hold_together(norm, d, policy, scene, exact_touch):
    rng = np.random.default_rng([norm, d])
    memory, proposals = Memory(policy), scene(rng, d, norm, 24)
    answers = [memory.admit(proposed) for proposed in proposals]
    stored = list(memory.entries())
    assert [c.id for c in stored] == [c.id for c in answers if c.note in ("kept", "shrunk")]
    notes = {c.note for c in answers}
    assert {"kept", "abstained" if policy == "worst-case" else "shrunk"} <= notes
    assert ("inherited" in notes) == (policy == "inherit")

    # Final regions lie inside the proposed ones, or inside the one they are inherited from.
    by_id = {c.id: c for c in stored}
    for proposed, answer in zip(proposals, answers, strict=True):
        if answer.note in ("kept", "shrunk"):
            assert superset(proposed.region, answer.region)
            assert answer.prediction == proposed.prediction
            assert by_id[answer.id].region == answer.region
        elif answer.note == "inherited":
            homes = [c for c in stored if superset(c.region, answer.region)]
            assert {c.prediction for c in homes} == {answer.prediction}
        else:
            assert (answer.prediction, answer.radius) == (ABSTAIN, 0.0)

    # Pairwise disjoint: by the geometry in both orders, and by exact numbers.
    for a, b in itertools.combinations(stored, 2):
        if a.prediction != b.prediction:
            assert disjoint(a.region, b.region)
            assert disjoint(b.region, a.region)
            assert exact_touch(a.region, b.region) > 1
    assert memory.check().ok

    # The class of a stored region is the answer everywhere in it.
    for c in stored:
        for x in points_inside(rng, c.region, 4):
            found = memory.lookup(x)
            assert found.prediction == c.prediction
            assert found.note == "inherited"
            if found.region is not None:
                assert any(superset(home.region, found.region) for home in stored if home.prediction == c.prediction)


@pytest.mark.parametrize("norm", [1, 2])
def test_reordering_never_breaks_the_invariant(norm, scene):
    rng = np.random.default_rng(norm)
    proposals = scene(rng, 4, norm, 24)
    for _ in range(5):
        memory = Memory()
        order = rng.permutation(len(proposals))
        answers = memory.admit_all([proposals[i] for i in order])
        assert memory.check().ok
        # Admitting all again changes no promise; where an input abstained, somebody may have been promised it since.
        again = memory.admit_all([proposals[i] for i in order])
        assert len(memory) == sum(c.note in ("kept", "shrunk") for c in answers)
        for before, after in zip(answers, again, strict=True):
            assert before.prediction in (after.prediction, ABSTAIN)


numbers = st.floats(-4, 4, width=32)
lengths = st.floats(2.0**-20, 8, width=32)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), norm=st.sampled_from([1, 2]), d=st.integers(1, 4))
def test_any_sequence(data, norm, d, proposal):
    vector = st.lists(numbers, min_size=d, max_size=d)
    axes = st.none() | st.lists(lengths, min_size=d, max_size=d)
    steps = data.draw(st.lists(st.tuples(vector, axes, st.integers(0, 2)), max_size=10))
    memory = Memory()
    for i, (center, half, prediction) in enumerate(steps):
        before = memory.lookup(center)
        answer = memory.admit(proposal(i, prediction, center, half, norm))
        # What was promised is what is answered.
        if before is not None:
            assert answer.prediction == before.prediction
        elif half is None:
            assert answer.note == "abstained"
        if answer.prediction != ABSTAIN:
            assert memory.lookup(center).prediction == answer.prediction
    assert memory.check().ok
