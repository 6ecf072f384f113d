"""One alpha for everything a memory promises."""

from dataclasses import replace

import numpy as np
import pytest

from anisocert.bounds import lifetime_alpha
from anisocert.errors import ArgumentError
from anisocert.memory import Memory


@pytest.fixture
def certificate(proposal):
    """A certificate of number i, far from all others."""
    return lambda i, alpha: replace(proposal(i, 0, [100.0 * i, 0.0], [1.0, 1.0]), alpha=alpha)


def test_numbers_are_given_once(tmp_path):
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory, Memory.open(tmp_path / "m") as other:
        assert [memory.reserve(3), other.reserve(1), memory.reserve(2)] == [1, 4, 5]
        assert memory.lifetime == other.lifetime == 0.01
        with pytest.raises(ArgumentError, match="count: expected at least 1"):
            memory.reserve(0)
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory:
        assert memory.reserve(1) == 7


def test_everything_that_comes_is_counted_once(certificate):
    with Memory(lifetime=0.01) as memory:
        kept = certificate(1, lifetime_alpha(0.01, 1))
        silent = certificate(2, lifetime_alpha(0.01, 2))
        silent = replace(silent, prediction=-1, region=None, gap=0.0, x=silent.region.center)
        for one in (kept, silent, kept, silent):
            memory.admit(one)
        assert memory.stats().spent == pytest.approx(0.01 * (1 / 2 + 1 / 6))
        # other votes about the same input are another chance to be wrong
        memory.admit(replace(silent, seed=1))
        assert memory.stats().spent == pytest.approx(0.01 * (1 / 2 + 2 / 6))
        # also where only the noise differs and the counts are the same by chance
        memory.admit(replace(silent, theta=silent.theta * 2))
        assert memory.stats().spent == pytest.approx(0.01 * (1 / 2 + 3 / 6), rel=1e-12)


def test_other_inputs_under_one_name_are_counted_too(certificate):
    with Memory(lifetime=0.01) as memory:
        silent = replace(certificate(1, 0.002), prediction=-1, region=None, gap=0.0)
        for point in ([0.0, 0.0], [1.0, 0.0], [0.0, 0.0]):
            memory.admit(replace(silent, x=np.array(point)))
        assert memory.stats().spent == pytest.approx(0.004)


def test_no_more_is_spent_than_there_is(certificate):
    with Memory(lifetime=0.01) as memory:
        memory.admit(certificate(1, 0.009))
        with pytest.raises(ArgumentError, match=r"expected an alpha of at most 0.001, .* got 0.002"):
            memory.admit(certificate(2, 0.002))
        assert len(memory) == 1
        assert memory.stats().spent == pytest.approx(0.009)
        memory.admit(certificate(3, 0.0005))
        assert len(memory) == 2


def test_all_or_nothing(certificate):
    with Memory(lifetime=0.01) as memory:
        with pytest.raises(ArgumentError, match="what is left"):
            memory.admit_all([certificate(1, 0.006), certificate(2, 0.006)])
        assert (len(memory), memory.stats().spent) == (0, 0.0)


def test_it_is_fixed_with_the_first_promise(tmp_path, certificate):
    with Memory.open(tmp_path / "plain") as memory:
        assert memory.lifetime is None
        memory.admit(certificate(1, 0.5))
        with pytest.raises(ArgumentError, match="expected a memory with a lifetime alpha"):
            memory.reserve(1)
    with pytest.raises(ArgumentError, match="each with an alpha of its own"):
        Memory.open(tmp_path / "plain", lifetime=0.01)
    Memory.open(tmp_path / "new", lifetime=0.02).close()
    with Memory.open(tmp_path / "new", lifetime=0.01) as memory:  # nothing was promised yet
        memory.reserve(1)
    with pytest.raises(ArgumentError, match=r"expected 0.02 from the first promise on, .* with 0.01 for all"):
        Memory.open(tmp_path / "new", lifetime=0.02)
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(ArgumentError, match="lifetime: expected alpha in"):
            Memory(lifetime=wrong)


def test_check_looks_at_the_account(tmp_path, certificate):
    import sqlite3

    with Memory.open(tmp_path / "m", lifetime=0.01) as memory:
        memory.admit(certificate(1, 0.004))
        assert memory.check().ok
    for statement, what in (
        ("UPDATE entries SET alpha = 0.005", "its entries spend 0.005, 0.004 was counted"),
        ("UPDATE lifetime SET spent = 0.02", "0.02 was counted, of a lifetime alpha of 0.01"),
    ):
        with sqlite3.connect(tmp_path / "m") as db:
            db.execute(statement)
        db.close()
        with Memory.open(tmp_path / "m") as memory:
            found = memory.check()
        assert not found.ok
        assert what in found.damage[0]


def test_reset_begins_a_new_life(tmp_path, certificate):
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory:
        memory.reserve(5)
        memory.admit(certificate(1, 0.009))
        memory.reset()
        assert (memory.lifetime, memory.stats().spent, memory.reserve(1)) == (0.01, 0.0, 1)
        memory.admit(certificate(1, 0.009))
