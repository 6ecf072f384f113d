"""How often the smoothed classifier was asked, and one alpha for everything a memory promises."""

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from anisocert.bounds import Plan, lifetime_alpha
from anisocert.errors import ArgumentError
from anisocert.memory import BrokenMemoryError, Memory
from anisocert.smoothing import Gaussian


@pytest.fixture
def certificate(proposal):
    """A certificate far from all others, at an alpha."""

    def make(i, alpha, **changes):
        found = proposal(i, 0, [100.0 * i, 0.0], [0.5, 0.5])
        p_a, p_b = Plan().estimate(950, 50, 1000, 3, alpha)
        gap = float(Gaussian(1.0).gap(p_a, p_b))
        region = found.region.scaled(min(1.0, gap / found.gap) * (1 - 1e-9))
        return replace(found, alpha=alpha, p_a=p_a, p_b=p_b, gap=gap, region=region, **changes)

    return make


def silent(certificate, **changes):
    """The same, abstaining."""
    x = certificate.region.center.astype(np.float32)
    return replace(certificate, **{"prediction": -1, "region": None, "gap": 0.0, "x": x} | changes)


def reserved(memory, *certificates):
    """The certificates made anew for numbers of the memory."""
    points = [c.x if c.region is None else c.region.center for c in certificates]
    first = [memory.reserve([c.id], c.seed, [x]) for c, x in zip(certificates, points, strict=True)]
    return first, [float(lifetime_alpha(memory.lifetime, i)) for i in first]


def test_a_hopeless_input_under_many_ids_is_many_submissions(tmp_path, certificate):
    """What may be wrong is counted by what was submitted: 200 abstentions are 200 chances."""
    with Memory.open(tmp_path / "m") as memory:
        hopeless = silent(certificate(0, 0.001))
        for i in range(200):
            memory.admit(replace(hopeless, id=i))
        assert (len(memory), memory.submissions, memory.attempts([0.0, 0.0])) == (0, 200, 200)
        for i in range(200):  # the same votes again
            memory.admit(replace(hopeless, id=i))
        lucky = certificate(0, 0.001, id=777)
        for _ in range(2):
            assert memory.admit(lucky).note == "kept"
    with Memory.open(tmp_path / "m", read_only=True) as memory:
        found = memory.stats()
        assert (found.entries, found.submissions, memory.submissions) == (1, 201, 201)
        assert 0.201 <= found.alphas <= 0.201 * (1 + 1e-12)
        assert (memory.attempts([0.0, 0.0]), memory.attempts([1.0, 0.0])) == (201, 0)
        assert memory.attempts(np.array([-0.0, 0.0])) == 201
        assert memory.check().ok


def test_other_votes_are_other_submissions(certificate):
    with Memory() as memory:
        one = silent(certificate(1, 0.001))
        for other in (
            one,
            replace(one, seed=1),
            replace(one, theta=np.float32(2) * one.theta),  # also where the counts are the same by chance
            replace(one, x=np.float32([0, 1])),
            replace(one, alpha=0.002),
            replace(one, model_hash="other"),
            one,
        ):
            memory.admit(other)
        assert memory.submissions == 6
        kept = certificate(2, 0.001)
        memory.admit(kept)
        memory.admit(replace(kept, seed=1))  # answered by the stored promise, and counted all the same
        memory.admit(kept)
        assert memory.submissions == 8


def test_what_is_refused_is_not_counted(certificate):
    with Memory() as memory:
        good = certificate(1, 0.001)
        with pytest.raises(ArgumentError):
            memory.admit_all([good, replace(certificate(2, 0.001), gap=9.0)])
        assert (len(memory), memory.submissions, memory.stats().alphas) == (0, 0, 0.0)


def test_numbers_are_given_once_and_are_spent(tmp_path):
    x = np.zeros((3, 2), np.float32)
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory, Memory.open(tmp_path / "m") as other:
        assert memory.stats().spent == 0.0
        assert [memory.reserve([0, 1, 2], 0, x), other.reserve([3], 0, x[:1]), memory.reserve([4, 5], 0, x[:2])] == [
            1,
            4,
            5,
        ]
        assert memory.lifetime == other.lifetime == 0.01
        for ids, inputs in (([], []), ([1, 2], x[:1])):
            with pytest.raises(ArgumentError, match="one id per input"):
                memory.reserve(ids, 0, inputs)
        assert memory.attempts([0.0, 0.0]) == 6
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory:
        assert memory.reserve([9], 0, iter(x[:1])) == 7
        found = memory.stats()
        assert (found.numbers, found.submissions) == (7, 0)
        assert found.spent == pytest.approx(0.01 * (1 - 1 / 8))
        assert sum(lifetime_alpha(0.01, i) for i in range(1, 8)) == pytest.approx(found.spent)


def test_alphas_of_numbers_differ():
    for start in (1, 10**3, 10**6, 10**9, 10**12):
        some = lifetime_alpha(0.001, start + np.arange(1000))
        assert (np.diff(some) < 0).all()


def test_what_never_had_a_number_does_not_enter(certificate):
    """Of 1,100 hopeless attempts that nobody sees, the lucky one comes: at an alpha that is left, or at a number's."""
    with Memory(lifetime=0.01) as memory:
        for alpha in (1e-6, 0.005, float(lifetime_alpha(0.01, 1))):
            with pytest.raises(ArgumentError, match=r"made for a number of this memory.* have no number.*--lifetime"):
                memory.admit(certificate(777, alpha))
            with pytest.raises(ArgumentError, match="have no number"):
                memory.admit(silent(certificate(777, alpha)))
        plain = certificate(1, 0.001)
        (number,), (alpha,) = reserved(memory, plain)
        assert number == 1
        mine = certificate(1, alpha)
        # The number is of one input under one id and one seed: another attempt needs another.
        for other in (replace(mine, id=2), replace(mine, seed=0), certificate(2, alpha, id=1, seed=mine.seed)):
            with pytest.raises(ArgumentError, match="have no number"):
                memory.admit(other)
        with pytest.raises(
            ArgumentError, match=r"got alpha 0.001 where its input, id and seed have the alphas 0.00(5|49)"
        ):
            memory.admit(plain)
        assert (len(memory), memory.submissions) == (0, 0)
        assert memory.admit(mine).note == "kept"
        assert memory.admit(mine).note == "kept"
        with pytest.raises(ArgumentError, match="the votes that number 1 was used for, got others"):
            memory.admit(replace(mine, method="isotropic"))
        assert (len(memory), memory.submissions, memory.attempts([100.0, 0.0])) == (1, 1, 1)
        assert memory.check().ok


def test_an_abstention_uses_its_number_up(certificate):
    with Memory(lifetime=0.01) as memory:
        _, (alpha,) = reserved(memory, certificate(1, 0.001))
        memory.admit(silent(certificate(1, alpha)))
        memory.admit(silent(certificate(1, alpha)))
        with pytest.raises(ArgumentError, match="number 1 was used for"):
            memory.admit(certificate(1, alpha))
        with pytest.raises(ArgumentError, match=r"another attempt must not begin with the votes of the first"):
            reserved(memory, certificate(1, 0.001))
        (number,), (again,) = reserved(memory, replace(certificate(1, 0.001), seed=7))
        assert number == 2
        assert memory.admit(replace(certificate(1, again), seed=7)).note == "kept"
        assert memory.stats().spent == pytest.approx(0.01 * (1 / 2 + 1 / 6))
        assert memory.check().ok


def test_all_or_nothing(certificate):
    with Memory(lifetime=0.01) as memory:
        _, (alpha,) = reserved(memory, certificate(1, 0.001))
        with pytest.raises(ArgumentError, match="have no number"):
            memory.admit_all([certificate(1, alpha), certificate(2, 0.001)])
        assert (len(memory), memory.submissions) == (0, 0)
        assert memory.admit(certificate(1, alpha)).note == "kept"


def test_it_is_fixed_with_the_first_submission(tmp_path, certificate):
    with Memory.open(tmp_path / "plain") as memory:
        assert memory.lifetime is None
        memory.admit(silent(certificate(1, 0.5)))
        with pytest.raises(ArgumentError, match="expected a memory with a lifetime alpha"):
            memory.reserve([1], 0, [[0.0, 0.0]])
    with pytest.raises(ArgumentError, match="each with an alpha of its own"):
        Memory.open(tmp_path / "plain", lifetime=0.01)
    Memory.open(tmp_path / "new", lifetime=0.02).close()
    with Memory.open(tmp_path / "new", lifetime=0.01) as memory:  # nothing was submitted yet
        memory.reserve([1], 0, [[0.0, 0.0]])
    with pytest.raises(ArgumentError, match=r"expected 0.02 from the first submission on, .* with 0.01 for all"):
        Memory.open(tmp_path / "new", lifetime=0.02)
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(ArgumentError, match="lifetime: expected alpha in"):
            Memory(lifetime=wrong)


ACCOUNTS = {
    "a number given back": ("DELETE FROM numbers WHERE number = 2", "has number 2, which belongs to another"),
    "more alpha": ("UPDATE numbers SET alpha = 0.006 WHERE number = 1", "not its part of 0.01"),
    "a submission forgotten": ("DELETE FROM submissions WHERE number = 1", "must hold 1 submissions"),
    "other evidence": ("UPDATE submissions SET evidence = x'00' WHERE number = 1", "was never submitted"),
    "another number": ("UPDATE submissions SET reserved = 7 WHERE number = 1", "has number 7"),
    "less alpha": ("UPDATE head SET alphas = 0.001", "was counted"),
}


@pytest.mark.parametrize(("statement", "what"), ACCOUNTS.values(), ids=ACCOUNTS)
def test_check_looks_at_the_account(tmp_path, certificate, refit_memory, statement, what):
    path = tmp_path / "m"
    with Memory.open(path, lifetime=0.01) as memory:
        _, alphas = reserved(memory, certificate(1, 0.001), certificate(2, 0.001))
        memory.admit_all([certificate(1, alphas[0]), silent(certificate(2, alphas[1]))])
        assert memory.check().ok
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()
    try:
        with Memory.open(path) as memory:
            assert not memory.check().ok
    except BrokenMemoryError:
        pass
    refit_memory(path)
    with Memory.open(path) as memory:
        assert what in " ".join(memory.check().damage)


def test_reset_begins_a_new_life(tmp_path, certificate):
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory:
        reserved(memory, *[certificate(i, 0.001) for i in range(5)])
        memory.reset()
        found = memory.stats()
        assert (found.lifetime, found.spent, found.numbers, found.submissions, found.alphas) == (0.01, 0.0, 0, 0, 0.0)
        assert memory.attempts([100.0, 0.0]) == 0
        (number,), (alpha,) = reserved(memory, certificate(1, 0.001))
        assert number == 1
        assert memory.admit(certificate(1, alpha)).note == "kept"
        assert memory.check().ok


def test_a_copy_asks_for_no_numbers(tmp_path, certificate):
    with Memory.open(tmp_path / "m", "abstain", lifetime=0.01) as memory:
        _, (alpha,) = reserved(memory, certificate(1, 0.001))
        memory.admit(certificate(1, alpha))
        with memory.copy() as copy:
            assert (copy.policy, copy.lifetime, copy.path) == ("abstain", None, None)
            assert copy.lookup([100.0, 0.0]).prediction == 0
            assert copy.admit(certificate(2, 0.001)).note == "kept"
            assert copy.check().ok
        assert (len(memory), memory.lifetime) == (1, 0.01)


def test_check_wants_each_entry_under_its_own_number(tmp_path, certificate, monkeypatch):
    """A number of one input, id and seed that another's entry was given is found, though the alphas agree."""
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory:
        _, (alpha,) = reserved(memory, certificate(1, 0.001, id=7, seed=5))
        monkeypatch.setattr("anisocert.memory._spending._number", lambda *_: 1)
        assert memory.admit(certificate(2, alpha, id=8, seed=6)).note == "kept"
        assert "has number 1, given to another input, id or seed" in " ".join(memory.check().damage)


def test_noise_has_one_number(tmp_path):
    one, other = np.zeros(2, np.float32), np.ones(2, np.float32)
    with Memory.open(tmp_path / "m", lifetime=0.01) as memory:
        assert memory.reserve([0], 0, [one]) == 1
        # another attempt, whose n may be chosen by the votes of the first, and other inputs
        for ids, x in (
            ([0], [one]),
            ([0], [other]),
            ([3, 0], [other, other]),
            ([4, 4], [one, other]),
            ([4, 4], [one, one]),
        ):
            with pytest.raises(ArgumentError, match=r"id \d: expected noise that has no .*a different seed \(--seed"):
                memory.reserve(ids, 0, x)
        assert memory.stats().numbers == 1
        assert memory.reserve([0, 1], 1, [other, one]) == 2
        assert memory.check().ok


@pytest.mark.parametrize("lifetime", ["0.1", True, 0, 1.0, [0.1]])
def test_a_lifetime_is_a_number(lifetime):
    with pytest.raises(ArgumentError, match=r"lifetime: expected .* in \(0, 1\), got"):
        Memory(lifetime=lifetime)
    assert Memory(lifetime=np.float32(0.25)).lifetime == 0.25
