"""What a certificate rests on, its noise included, in memories from before certificates named it too."""

import json
import math
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.memory import Memory
from anisocert.memory._evidence import digest

NOISES = {
    "gaussian": ac.Gaussian(1.0),
    "uniform": ac.Uniform(1.0),
    "gaussian-mixture": ac.GaussianMixture([0.3, 0.7], [1.0, 2.0]),
}


@pytest.fixture(params=NOISES)
def certificates(request, coordinate_threshold):
    """Three certificates and an abstention."""
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [1.5, 1.0], [0.0, 0.0]], np.float32)
    plan = ac.Plan(n0=20, n=1000)
    return ac.certify(coordinate_threshold, x, smoothing=NOISES[request.param], plan=plan, num_classes=2)


def test_a_memory_from_before_certificates_named_their_noise(certificates, refit_memory, tmp_path):
    path = tmp_path / "memory.sqlite"
    with Memory.open(path) as memory:
        kept = [c for c in memory.admit_all(certificates) if c.note == "kept"]
    db = sqlite3.connect(path)
    with db:
        for number, text in db.execute("SELECT number, certificate FROM entries").fetchall():
            values = json.loads(text)
            assert values.pop("noise") == certificates[0].noise
            db.execute("UPDATE entries SET certificate = ? WHERE number = ?", (json.dumps(values), number))
    db.close()
    refit_memory(path)
    with Memory.open(path) as memory:
        assert len(kept) >= 2
        assert [entry.noise for entry in memory.entries()] == [certificates[0].noise] * len(kept)
        assert memory.check().ok  # the account of alpha too, which knows votes by their digests
        memory.admit_all(kept)
        assert memory.submissions == len(certificates), "the same votes counted as new ones"


def test_the_digest_of_a_noise_that_its_gap_tells_is_that_of_earlier_versions(proposal):
    """Else the votes in every memory there is would be new ones."""
    one = proposal(3, 1, [0.5, 1.0], [1.0, 2.0])
    assert digest(one, np.array([0.5, 1.0])).hex() == "395cf9b9c6766ad9ab90f7608bc1e1b9d54d7ee5121ebb764622126f99995470"


def test_other_noise_makes_other_votes(proposal):
    one, point = proposal(3, 1, [0.5, 1.0], [1.0, 2.0]), np.array([0.5, 1.0])
    names = [digest(replace(one, noise=name), point) for name in ("gaussian", "gaussian-mixture", "my own")]
    assert len(set(names)) == 3


@pytest.mark.parametrize(
    ("noise", "what"),
    [
        ("gaussian-mixture", "expected the gap that p_a and p_b give under gaussian-mixture noise, .*, got"),
        ("uniform", "expected norm 1, which uniform noise has, got norm 2"),
        ("laplace", "expected noise to be one of gaussian, .*, got 'laplace'"),
    ],
)
def test_a_certificate_under_another_noise_than_its_votes_is_refused(proposal, noise, what):
    with Memory() as memory, pytest.raises(ArgumentError, match=what):
        memory.admit(replace(proposal(3, 1, [0.5, 1.0], [1.0, 2.0]), noise=noise))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"votes": 2000.0}, "expected int as votes"), ({"prediction": 1.0}, "expected int as prediction"),
        ({"seed": 2**70}, "expected int as seed"), ({"id": True}, "expected int as id"),
        ({"reason": None}, "expected str as reason"), ({"p_a": math.nan}, "expected a finite float as p_a"),
    ],
)  # fmt: skip
def test_what_could_not_be_read_again_is_not_stored(proposal, tmp_path, change, what):
    first, second = (proposal(number, 1, [number, 1.0], [0.1, 0.2]) for number in (1, 2))
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        memory.admit(first)
        with pytest.raises(ArgumentError, match=what):
            memory.admit(replace(second, **change))
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        assert memory.lookup(np.float32([1, 1])).prediction == 1
        assert memory.check().ok


@pytest.mark.parametrize("stop", [None, "checkpoints"])
def test_no_more_is_admitted_than_a_look_may_claim(coordinate_threshold, stop):
    """A forger would take the best of several looks, each at the whole of alpha."""
    x, plan = np.array([[0.4, 0.0]], np.float32), ac.Plan(n0=20, n=1000, stop=stop)
    (found,) = ac.certify(coordinate_threshold, x, smoothing=ac.Gaussian(1.0), plan=plan, num_classes=2)
    with Memory() as memory:
        assert memory.admit(found).note == "kept"
    fewer = 10 if stop is None else 0  # a prefix whose last votes were for the other class
    counts = {"bound_n": found.bound_n - fewer, "runner_up_votes": found.runner_up_votes - fewer}
    share = float(plan.estimate(found.bound_k, counts["runner_up_votes"], counts["bound_n"], 2, found.alpha)[0])
    forged = counts | {"p_a": share, "p_b": 1 - share, "gap": float(ac.Gaussian(1.0).gap(share, 1 - share))}
    with Memory() as memory, pytest.raises(ArgumentError, match=r"expected (bounds from all 1000 votes|p_a = )"):
        memory.admit(replace(found, **forged))


def test_a_bound_from_some_of_the_votes_has_the_alpha_of_an_early_look(coordinate_threshold):
    """Only the last look has more than a tenth, and its bound is from all votes."""
    x, plan = np.array([[0.4, 0.0]], np.float32), ac.Plan(n0=20, n=1000, stop="checkpoints")
    (found,) = ac.certify(coordinate_threshold, x, smoothing=ac.Gaussian(1.0), plan=plan, num_classes=2)
    for part, kept in ((0.1, True), (0.11, False), (0.8, False)):
        share = float(plan.estimate(95, 5, 100, 2, part * found.alpha)[0])
        gap = float(ac.Gaussian(1.0).gap(share, 1 - share))
        region = ac.Gaussian.region(x[0], found.theta, gap)
        counts = {"votes": 1000, "top_votes": 700, "bound_n": 100, "bound_k": 95, "runner_up_votes": 5}
        one = replace(found, **counts, p_a=share, p_b=1 - share, gap=gap, region=region)
        with Memory() as memory:
            if kept:
                assert memory.admit(one).note == "kept"
                continue
            with pytest.raises(ArgumentError, match="expected p_a = "):
                memory.admit(one)


@pytest.mark.parametrize("axis", [0, 1])
def test_no_semi_axis_may_be_longer_than_gap_and_theta_give(proposal, axis):
    one = proposal(3, 1, [0.5, 1.0], [1.0, 2.0])
    axes = one.region.axes * 0.9
    axes[axis] *= 1.12
    with Memory() as memory, pytest.raises(ArgumentError, match=r"semi-axes of at most gap x theta, got 1\.00"):
        memory.admit(replace(one, region=Region(one.region.center, axes, 2)))


@pytest.mark.parametrize("n", [100, 100_000, 10**9])
def test_a_claim_near_one_may_exceed_its_votes_in_the_last_bits_alone(proposal, n):
    """A gap magnifies there what the share is off by."""
    plan, one = ac.Plan(n=n), proposal(3, 1, [0.5, 1.0], [1.0, 2.0])

    share = float(plan.estimate(n, 0, n, one.num_classes, one.alpha)[0])

    def claiming(claimed):
        gap = float(ac.Gaussian(1.0).gap(claimed, 1 - share))
        region = ac.Gaussian.region(np.array([0.5, 1.0]), one.theta, gap)
        counts = dict.fromkeys(("votes", "top_votes", "bound_n", "bound_k"), n) | {"runner_up_votes": 0}
        return replace(one, **counts, bound=plan.bound, stop=None, p_a=claimed, p_b=1 - share, gap=gap, region=region)

    with Memory() as memory:
        assert memory.admit(claiming(float(np.nextafter(share, 1)))).note == "kept"
        with pytest.raises(ArgumentError, match="expected p_a = "):
            memory.admit(claiming(share + max(0.5e-13, 4e-13 * (1 - share))))
