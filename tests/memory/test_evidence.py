"""What a certificate rests on, its noise included, in memories from before certificates named it too."""

import json
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert.errors import ArgumentError
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
