"""What is kept of an attack that was stopped is used by the very same attack, and by no other."""

from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert.attack import UNFINISHED, Search, attack_first, first
from anisocert.runs import read_run

QUICK, N = Search(starts=1, steps=2, samples=4, votes=50), 100
X = np.float32([[0.5, 0.0], [0.6, 0.1], [-0.7, 0.2]])


@pytest.fixture
def attack(half_space, write_run, tmp_path, monkeypatch):
    """attack(**changes) -> which groups of two inputs it had to search; the same run but for these."""
    network = ac.Network(half_space([1.0, 0.0]).eval(), 2)
    found = ac.certify(network, X, smoothing=ac.Gaussian(0.25), plan=ac.Plan(n0=100, n=N))
    write_run(tmp_path / "run", found, [0, 0, 1], sigma=0.25, n0=100, n=N, data="unused.npz")
    hunt, begun = first.Hunt, []
    monkeypatch.setattr(first, "AT_ONCE", 2)
    monkeypatch.setattr(first, "Hunt", lambda *given: begun.append(given[1].ids) or hunt(*given))

    def run(x=X, network=network, **changes):
        begun.clear()
        how = {"radii": [0.1], "how": QUICK, "n": N, "keep": tmp_path / UNFINISHED} | changes
        attack_first(read_run(tmp_path / "run"), network, dict(enumerate(x)).get, **how)
        return list(begun)

    return run


def test_the_same_attack_searches_nothing_again(attack, tmp_path):
    done = []
    assert attack() == [[0, 1], [2]]
    assert attack(on_done=done.append) == []
    assert sum(done) == 3 * 3
    assert attack(keep=None) == [[0, 1], [2]]


@pytest.mark.parametrize(
    "other", [{"how": replace(QUICK, seed=1)}, {"how": replace(QUICK, steps=3)}, {"n": 2 * N}, {"radii": [0.2]}]
)
def test_another_attack_begins_anew_and_leaves_nothing_of_the_first(attack, other):
    attack()
    assert attack(**other) == [[0, 1], [2]]
    assert attack() == [[0, 1], [2]]


def test_other_inputs_and_another_network_begin_anew(attack, half_space):
    attack()
    assert attack(x=X + np.float32(2**-10)) == [[0, 1], [2]]
    attack()
    assert attack(network=ac.Network(half_space([1.0, 0.1]).eval(), 2)) == [[0, 1], [2]]


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda _: b"", lambda _: b"mine"])
def test_a_damaged_file_is_no_loss(attack, tmp_path, damage):
    attack()
    file = tmp_path / UNFINISHED
    file.write_bytes(damage(file.read_bytes()))
    assert attack() == [[0, 1], [2]]
