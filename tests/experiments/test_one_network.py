"""Rows and measurements of another network are refused."""

import pytest

import one_network
from anisocert.errors import ArgumentError
from anisocert.evaluate import EVERYONE, Withstood
from first import Measured
from one_network import expect_one_network


@pytest.fixture
def folder(run, columns, tmp_path, monkeypatch):
    """A network's runs, of these hashes."""

    def made(**hashes):
        for name in hashes:
            (tmp_path / "cohen-0.25" / name).mkdir(parents=True)
            (tmp_path / "cohen-0.25" / name / "run.json").touch()
        monkeypatch.setattr(one_network, "read_run", lambda folder: run(
            columns("fixed", [0.5]), folder, data="cifar10", model_hash=hashes[folder.name]))  # fmt: skip
        return tmp_path

    return made


def line(**changes):
    said = {"data": "cifar10", "recipe": "cohen", "sigma": 0.25, "model_hash": "a"} | changes
    return Measured(norm="l2", method="fixed", protects=EVERYONE, line=Withstood(0.0, 1, 1, 1, 0, 0), n=100,
                    alpha=0.001, seed=0, starts=1, steps=1, samples=1, **said)  # fmt: skip


def test_runs_of_another_network_are_named(folder):
    with pytest.raises(ArgumentError, match=r"cohen-0\.25, got fixed of a; more, ours of b: certify all of them"):
        expect_one_network(folder(fixed="a", ours="b", more="b"))


def test_a_stranger_who_attacked_another_network_is_named(folder):
    where = folder(fixed="a", ours="a", theirs=None)
    expect_one_network(where, [line(), line(data="digits", model_hash="b"), line(sigma=0.5, model_hash="b")])
    with pytest.raises(ArgumentError, match=r"got fixed, ours, attacked-first\.tsv of a; attacked-first\.tsv of b"):
        expect_one_network(where, [line(), line(model_hash="b")])
