"""Whole runs: what a memory answers, and the worst-case rule."""

from itertools import combinations

import numpy as np
import pytest

from anisocert.geometry import disjoint
from anisocert.memory import Memory, columns, worst_case


def test_columns(scene):
    proposals, memory = scene(np.random.default_rng(0), 3, 2, 100, crowd=0.4), Memory()
    answers = [memory.admit(proposed) for proposed in proposals]
    rows = [columns(answer) for answer in answers]
    assert {row["memory_note"] for row in rows} == {"kept", "shrunk", "inherited", "abstained"}
    for row, answer, proposed in zip(rows, answers, proposals, strict=True):
        assert row == {
            "memory_prediction": answer.prediction,
            "memory_radius": answer.radius,
            "memory_proxy_radius": answer.proxy_radius,
            "memory_note": answer.note,
        }
        # Nothing gets larger than it was, unless it is inherited.
        assert row["memory_note"] == "inherited" or row["memory_radius"] <= proposed.radius


@pytest.mark.parametrize("norm", [1, 2])
def test_worst_case(norm, scene):
    proposals = scene(np.random.default_rng(norm), 5, norm, 120, crowd=0.25)
    expected = set()
    for a, b in combinations([c for c in proposals if c.region is not None], 2):
        if a.prediction != b.prediction and not disjoint(a.region, b.region):
            expected |= {a.id, b.id}
    answers = worst_case(proposals)
    for proposed, answer in zip(proposals, answers, strict=True):
        if proposed.region is None or proposed.id in expected:
            assert (answer.prediction, answer.region, answer.note) == (-1, None, "abstained")
        else:
            assert (answer.prediction, answer.region, answer.note) == (proposed.prediction, proposed.region, "kept")
    assert 0 < len(expected) < 120
    assert any(f"input {i}" in answers[j].reason for j in expected for i in expected if i != j)
    # The order does not matter.
    order = np.random.default_rng(0).permutation(120)
    again = worst_case([proposals[i] for i in order])
    assert [c.note for c in again] == [answers[i].note for i in order]
    assert worst_case([]) == []
