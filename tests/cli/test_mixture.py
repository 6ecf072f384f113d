"""A Gaussian mixture from the command line: its run holds the components, so that its votes can be drawn again."""

import json

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.attack import Search, attack
from anisocert.attack._targets import Targets
from anisocert.engine import Network, Query
from anisocert.errors import ArgumentError
from anisocert.optimize.soft import Problem, SoftVotes
from anisocert.runs import read_run
from anisocert.verify import verify
from anisocert.verify.recounting import recount

THETA = "theta is not the one that method fixed has for every input of the run"
MIXTURE = ("--noise", "gaussian-mixture", "--components", "0.25:0.5,0.75:2")


def test_a_mixtures_votes_are_drawn_again_from_its_components(cli, network_file, tmp_path, forge):
    run, options = tmp_path / "run", ("--max", 4, "--n", 300, "--sigma", 0.3, "--method", "fixed")
    cli("certify", network_file, "--data", "digits", *options, *MIXTURE, "--out", run)
    assert set(read_run(run).column("noise")) == {"gaussian-mixture"}
    cli("verify", run, "--recount", 4)
    components = read_run(run).description["components"]
    forge(run, components="0.25:0.5,0.75:1.9")
    assert "expected a mixture's own theta" in next(recount(read_run(run), [0])).what
    assert {finding.what for finding in verify(run).findings} == {THETA}
    forge(run, components=components, noise=None)
    (wrong,) = verify(run).findings
    assert "expected noise gaussian-mixture with components" in wrong.what
    forge(run, noise=None, components=None)
    assert {finding.what for finding in verify(run).findings} == {
        "noise is 'gaussian-mixture', the run's is 'gaussian'"
    }


def test_a_mixture_is_attacked_and_reported_beside_gaussian_noise(cli, trained_digits, tmp_path):
    options = ("--data", "digits", "--max", 4, "--n", 1000, "--sigma", 0.15, "--method", "fixed")
    cli("certify", trained_digits, *options, *MIXTURE, "--memory", tmp_path / "m.sqlite", "--out", tmp_path / "mixture")
    cli("certify", trained_digits, *options, "--out", tmp_path / "gaussian")
    quick = ("--n", 500, "--steps", 2, "--starts", 2, "--json")
    found = json.loads(cli("attack", tmp_path / "mixture", *quick).out)
    assert found["attacked"] >= 3
    assert found["broken"] == 0
    assert cli("attack", tmp_path / "mixture", *quick, "--memory", tmp_path / "m.sqlite")
    cli("report", tmp_path / "mixture", tmp_path / "gaussian", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "fixed, Gaussian-mixture noise" in page
    assert "fixed, Gaussian noise" in page


def test_only_its_own_components_can_refute_a_mixtures_certificate(half_space):
    smoothing = ac.GaussianMixture([0.25, 0.75], [0.1, 0.4])
    network = Network(half_space([1.0, 0.0]).eval(), 2)
    found = ac.certify(network, np.array([[0.3, 0.0]], np.float32), smoothing=smoothing, plan=ac.Plan(n=1000))
    how = Search(starts=1, steps=2)
    assert attack(network, found, smoothing=smoothing, how=how, n=500).broken == ()
    with pytest.raises(ArgumentError, match=r"whose weights and sigmas must be known: .* smoothing=ac.GaussianMixture"):
        attack(network, found, how=how)
    other = Targets.of(network, found, 0, ac.GaussianMixture([0.5, 0.5], [0.1, 0.4]))
    with pytest.raises(ArgumentError, match="expected a mixture's own theta"):
        SoftVotes(Problem(other.query, "logits"), 8).mean(other.theta, 0, 8)


def test_soft_votes_of_a_mixture_are_its_components(half_space):
    query = Query.of(
        Network(half_space([1.0, 0.0]).eval(), 2),
        ac.GaussianMixture([0.25, 0.75], [0.01, 1.0]),
        torch.tensor([[0.3, 0.0]]),
    )
    theta = torch.from_numpy(np.array(query.smoothing.theta)).expand(1, 2)
    votes = SoftVotes(Problem(query, "logits"), 500).mean(theta, 0, 4000)
    height = 0.3 + np.outer([0.01, 1.0], np.random.default_rng(0).normal(size=100_000))
    narrow, wide = (1 / (1 + np.exp(-2 * height))).mean(1)
    assert float(votes[0, 0]) == pytest.approx(0.25 * narrow + 0.75 * wide, abs=0.01)


@pytest.mark.parametrize("method", [(), ("--method", "isotropic")])
def test_a_mixture_without_method_fixed_is_refused_before_the_run_is_begun(cli, network_file, tmp_path, method):
    out, votes = tmp_path / "run", ("--max", 2, "--n", 200, "--sigma", 0.3)
    options = (network_file, "--data", "digits", *votes, *MIXTURE, "--out", out)
    assert "expected --method fixed with components" in cli("certify", *options, *method, code=2).err
    assert not out.exists()
    cli("certify", *options, "--method", "fixed")
