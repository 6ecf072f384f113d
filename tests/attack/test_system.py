"""Attacks on a memory's answers: none changes, unless the memory was tampered with."""

import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert import attack
from anisocert.attack import Search, attack_system
from anisocert.attack.system import _Questions, _towards
from anisocert.data import digits
from anisocert.errors import ArgumentError
from anisocert.memory import BrokenMemoryError
from anisocert.runs import read_run

QUICK = Search(starts=2, steps=5, samples=8)
PLAN = ac.Plan(n=200)


@pytest.fixture
def crowded(digits_network, tmp_path):
    """A memory in which regions had to make room: blown up fourfold, with their noise, before they are admitted."""
    network, _ = digits_network
    some = digits("test").subset(most=10)
    found = ac.certify(network, some.x, ids=some.ids.tolist(), smoothing=ac.Gaussian(0.25), plan=PLAN)
    path = tmp_path / "memory.sqlite"
    with ac.Memory.open(path) as memory:
        notes = [
            memory.admit(c if c.region is None else replace(c, region=c.region.scaled(4.0), theta=4 * c.theta)).note
            for c in found
        ]
    assert {"kept", "shrunk"} <= set(notes)
    return network, path


@contextmanager
def system_of(network, path):
    """The system behind a copy of a memory."""
    with ac.Memory.open(path, read_only=True) as memory, memory.copy() as copy:
        yield ac.System(network, smoothing=ac.Gaussian(0.25), plan=PLAN, memory=copy, secret=b"known to no client")


def test_no_answer_changes_and_the_memory_stays_as_it_was(crowded):
    network, path = crowded
    with ac.Memory.open(path) as memory:
        before = len(memory)
    content, done = path.read_bytes(), []
    with system_of(network, path) as system:
        found = attack_system(system, how=QUICK, on_done=done.append)
        assert len(system.memory) > before  # newcomers of the promised class were admitted
    assert sum(done) == found.promises == before
    # each point: lookup, newcomer, claim, and lookup again at the end; two ascents and up to two neighbours a promise
    assert 4 * 3 * before <= found.questions <= 4 * 4 * before
    assert found.changed == ()
    assert found.conflicts == 0
    assert found.abstained is None
    assert not found.failed
    assert path.read_bytes() == content


def test_an_empty_memory_withstands_nothing(digits_network):
    network, secret = digits_network[0], b"known to no client"
    system = ac.System(network, smoothing=ac.Gaussian(0.25), plan=PLAN, memory=ac.Memory(), secret=secret)
    with pytest.raises(ArgumentError, match="expected a promise to attack, got none: the memory is empty"):
        attack_system(system, how=QUICK)


@pytest.mark.parametrize("policy", ["abstain", "worst-case"])
def test_weaker_policies_may_abstain_and_never_contradict(digits_network, tmp_path, policy):
    network, certificates = digits_network
    with ac.Memory.open(tmp_path / "memory.sqlite", policy) as memory:
        memory.admit_all(certificates)
    with system_of(network, tmp_path / "memory.sqlite") as system:
        found = attack_system(system, how=QUICK, most=2)
    assert not found.failed
    assert found.abstained > 0  # newcomers that claim another class take the answer away, if they cannot exchange it


def test_a_memory_with_an_alpha_for_its_lifetime_can_be_attacked_too(digits_network, tmp_path):
    network, _ = digits_network
    some = digits("test").subset(most=1)
    with ac.Memory.open(tmp_path / "memory.sqlite", lifetime=0.01) as memory:
        first = memory.reserve(some.ids.tolist(), 0, some.x)
        plan = replace(PLAN, alpha=ac.bounds.lifetime_alpha(0.01, first))
        found = ac.certify(network, some.x, ids=some.ids.tolist(), smoothing=ac.Gaussian(0.25), plan=plan)
        assert memory.admit(found[0]).note == "kept"
    with system_of(network, tmp_path / "memory.sqlite") as system:
        assert not attack_system(system, how=QUICK, most=1).failed
    with ac.Memory.open(tmp_path / "memory.sqlite") as memory:
        assert memory.lifetime == 0.01


def test_an_inflated_region_is_found(crowded, refit_memory):
    """Somebody makes stored regions larger by 30 %, and their noise: they reach into each other."""
    network, path = crowded
    with sqlite3.connect(path) as db:
        for number, axes, theta in db.execute("SELECT number, axes, theta FROM entries").fetchall():
            larger, noisier = np.frombuffer(axes, "<f8") * 1.3, np.frombuffer(theta, "<f4") * np.float32(1.4)
            values = (larger.tobytes(), noisier.tobytes(), number)
            db.execute("UPDATE entries SET axes = ?, theta = ? WHERE number = ?", values)
    db.close()
    with pytest.raises(BrokenMemoryError), system_of(network, path):
        pass
    refit_memory(path)
    with system_of(network, path) as system:
        found = attack_system(system, how=QUICK)
    assert found.failed
    assert found.conflicts > 0
    assert found.changed
    one = found.changed[0]
    assert one.answer != one.promised
    assert one.gauge < 1


def test_points_towards_others_are_inside(crowded):
    _, path = crowded
    with ac.Memory.open(path) as memory:
        everyone = list(memory.entries())
    for promise in everyone:
        points = list(_towards(promise, everyone))
        assert len(points) == 2
        assert all(0.99 < promise.region.gauge(point) < 1 for point in points)


def test_an_answer_that_comes_from_the_network_is_no_promise(crowded):
    """Somebody loses an entry: whoever asks there gets the network's own answer, be it the same."""
    network, path = crowded
    with system_of(network, path) as system:
        promise = next(iter(system.memory.entries()))
        system.memory.reset()
        questions = _Questions(system)
        questions.ask(promise, promise.region.center.astype(np.float32))
    assert [(one.promise, one.answer, one.how) for one in questions.changed] == [(promise.id, None, "lookup")]


def test_the_system_of_a_run(quick, whole, do, tmp_path):
    """Its noise and method, and its plan but for the votes, which are all counted."""
    averaged, sequential = tmp_path / "averaged", tmp_path / "sequential"
    do(replace(quick, method="average", average_of=str(whole), max=2), averaged)
    do(replace(quick, stop="betting", bound="two-class", simultaneous=True, max=2), sequential)
    for folder in (averaged, sequential):
        run = read_run(folder)
        c, memory = run.configuration, ac.Memory()
        system = attack.system_of(run, run.network(), memory, 300)
        assert system.plan == ac.Plan(n0=c.n0, n=300, alpha=c.alpha, bound=c.bound)
        assert (system.method.name, system.memory) == (c.method, memory)
        np.testing.assert_array_equal(system.smoothing.theta, c.smoothing().theta)
        first = system.propose(digits("test").subset(most=2).x)[0]
        np.testing.assert_array_equal(first.theta, next(iter(run.thetas.values())))
