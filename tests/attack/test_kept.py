"""What is kept of an attack that was stopped is used by the very same attack, and by no other."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert import seals
from anisocert.attack import UNFINISHED, Search, _kept, attack_first, first
from anisocert.errors import AnisocertWarning
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
    monkeypatch.setitem(first.AT_ONCE, "cpu", 2)
    monkeypatch.setattr(first, "Hunt", lambda *given: begun.append(given[1].ids) or hunt(*given))

    def run(x=X, network=network, **changes):
        begun.clear()
        how = {"radii": [0.1], "how": QUICK, "n": N, "keep": tmp_path / UNFINISHED} | changes
        attack_first(read_run(tmp_path / "run"), network, dict(enumerate(x)).get, **how)
        return list(begun)

    return run


def test_the_same_attack_searches_nothing_again(attack):
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


def test_another_version_and_another_kind_of_device_begin_anew(attack, monkeypatch):
    attack()
    monkeypatch.setattr("anisocert.runs.versions.__version__", "another")
    assert attack() == [[0, 1], [2]]
    known, keys = SimpleNamespace(description={}, ids=[0], x=X), set()
    for kind in ("cpu", "cuda"):
        network = SimpleNamespace(hash="one", device=torch.device(kind))
        keys.add(_kept.key_of(known, network, known, np.zeros(1), QUICK, N))
    assert len(keys) == 2


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda _: b"", lambda _: b"mine"])
def test_a_damaged_file_is_no_loss(attack, tmp_path, damage):
    attack()
    file = tmp_path / UNFINISHED
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(AnisocertWarning, match=r"attacking-first.kept, got a damaged file or somebody else's"):
        assert attack() == [[0, 1], [2]]
    assert attack() == []


def test_what_somebody_else_has_left_is_not_believed(attack, tmp_path, monkeypatch):
    """Everything that names the attack comes with the run; the secret of whoever attacks does not."""
    with monkeypatch.context() as stranger:
        stranger.setenv("XDG_STATE_HOME", str(tmp_path / "stranger"))
        attack()
        assert attack() == []
    with pytest.warns(AnisocertWarning, match="it is not used, and the attack begins anew"):
        assert attack() == [[0, 1], [2]]


def test_nor_is_a_file_of_ours_that_was_changed(attack, tmp_path):
    attack()
    file = tmp_path / UNFINISHED
    found = file.read_bytes()
    file.write_bytes(found[:-1] + bytes([found[-1] ^ 1]))
    with pytest.warns(AnisocertWarning, match="somebody else's"):
        assert attack() == [[0, 1], [2]]


def test_a_file_of_before_is_left_alone(attack, tmp_path):
    old = tmp_path / "attacking-first.safetensors"
    old.write_bytes(b"whatever")
    assert attack() == [[0, 1], [2]]
    assert old.read_bytes() == b"whatever"


def test_how_much_was_done_is_told(attack, monkeypatch):
    told, search = [], first._attacked
    with monkeypatch.context() as stopped:
        stopped.setattr(
            first, "_attacked", lambda hunt, *given: search(hunt, *given) if hunt.clean.ids[0] < 2 else 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            attack(on_kept=told.append)
    assert not told
    assert attack(on_kept=told.append) == [[2]]
    assert attack(on_kept=told.append) == []
    assert told == [2, 3]


@pytest.mark.parametrize(
    "change",
    [
        {"questions": np.array(3)},
        {"labels": np.zeros(2)},
        {"answers": np.zeros((2, 1), np.int64)},
        {"errors": np.array(0.1)},
    ],
)
def test_arrays_of_other_types_and_shapes_are_not_used(attack, monkeypatch, change):
    """As another version may have left them."""
    attack()
    real = _kept._read
    monkeypatch.setattr(
        _kept, "_read", lambda *given: {key: replace(one, **change) for key, one in real(*given).items()}
    )
    assert attack() == [[0, 1], [2]]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_of_many_that_begin_at_once_all_have_one_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: seals.secret(), range(8)))) == 1


def test_only_this_user_reads_file_and_secret(attack, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    attack()
    key = seals.place()
    assert key.is_relative_to(tmp_path)
    assert [path.stat().st_mode & 0o077 for path in (tmp_path / UNFINISHED, key, key.parent)] == [0, 0, 0]
    key.chmod(0o644)
    with pytest.warns(AnisocertWarning, match=r"only this user may read in .*seals.key.*begins anew, as nothing is"):
        assert attack() == [[0, 1], [2]]


def test_where_nothing_can_be_kept_the_attack_goes_on(attack, tmp_path, monkeypatch):
    with pytest.warns(AnisocertWarning, match="nothing is kept in") as told:
        assert attack(keep=tmp_path / "absent" / UNFINISHED) == [[0, 1], [2]]
    assert len(told) == 1
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.warns(AnisocertWarning, match="expected a place for a secret of this user, got none"):
        assert attack() == [[0, 1], [2]]
    assert not (tmp_path / UNFINISHED).exists()
