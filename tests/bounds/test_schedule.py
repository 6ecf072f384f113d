from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anisocert.bounds import Look, Plan

votes = st.integers(1, 10**9)
alphas = st.floats(1e-12, 0.999)


def test_fixed_n_looks_once() -> None:
    assert Plan().looks == (Look(100_000, 1e-3),)


def test_early_abstain_adds_looks_that_spend_nothing() -> None:
    *earlier, last = Plan(early_abstain=True).looks
    assert last == (100_000, 1e-3)
    assert len(earlier) > 5
    assert all(look.alpha == 0 for look in earlier)


def test_checkpoints_are_three_with_most_alpha_at_the_end() -> None:
    looks = Plan(stop="checkpoints").looks
    assert [look.n for look in looks] == [1_000, 10_000, 100_000]
    assert [look.alpha for look in looks] == pytest.approx([1e-4, 1e-4, 8e-4], rel=1e-14)
    assert [look.n for look in Plan(n=12_345, stop="checkpoints").looks] == [124, 1_235, 12_345]


@pytest.mark.parametrize(
    ("n", "expected"), [(1, [(1, 1.0)]), (5, [(1, 0.2), (5, 0.8)]), (11, [(1, 0.1), (2, 0.1), (11, 0.8)])]
)
def test_checkpoints_that_coincide_become_one(n: int, expected: list[tuple[int, float]]) -> None:
    looks = Plan(n=n, alpha=0.1, stop="checkpoints").looks
    assert [look.n for look in looks] == [at for at, _ in expected]
    assert [look.alpha for look in looks] == pytest.approx([share * 0.1 for _, share in expected], rel=1e-14)


@given(votes, alphas)
def test_checkpoints_never_spend_more_than_alpha_to_the_last_bit(n: int, alpha: float) -> None:
    spent = sum(Fraction(look.alpha) for look in Plan(n=n, alpha=alpha, stop="checkpoints").looks)
    assert Fraction(alpha) * (1 - Fraction(1, 10**14)) < spent <= Fraction(alpha)


@given(votes, st.sampled_from([None, "checkpoints", "betting"]), st.booleans())
def test_looks_increase_and_end_at_n(n: int, stop: str | None, early_abstain: bool) -> None:
    counts = [look.n for look in Plan(n=n, stop=stop, early_abstain=early_abstain).looks]
    assert counts == sorted(set(counts))
    assert counts[0] >= 1
    assert counts[-1] == n


def test_betting_looks_often_with_the_full_alpha() -> None:
    looks = Plan(stop="betting").looks
    assert {look.alpha for look in looks} == {1e-3}
    assert looks[0].n == 32
    assert all(later.n <= 1.3 * look.n for look, later in pairwise(looks))
    assert len(looks) < 60
