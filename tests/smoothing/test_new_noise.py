"""A noise of one's own: this file is all that it takes to certify, save, verify, remember, show, attack and report."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import anisocert as ac
from anisocert.attack import Search, attack
from anisocert.attack._targets import Targets
from anisocert.cli.app import app
from anisocert.data import Dataset
from anisocert.diagnosis.probing import Sample, probe
from anisocert.engine import Network, Query
from anisocert.errors import ArgumentError
from anisocert.memory import Memory
from anisocert.optimize.soft import Problem, SoftVotes
from anisocert.runs import Configuration, read_run
from anisocert.runs.differences import differences
from anisocert.smoothing import NOISES, Gaussian, Smoothing, Uniform, base, unnamed
from anisocert.smoothing.base import USUAL, positive
from anisocert.train import noisy_accuracy
from anisocert.train.recipe import noise_like
from anisocert.verify import verify
from anisocert.verify.recounting import recount


@dataclass(frozen=True, init=False, eq=False)
class Width(Smoothing):
    """Uniform noise by its whole width: half of it is the half-width lambda, so that gaps are half of Uniform's."""

    name, title, symbol = "width", "uniform (by width)", "w"
    norm = 1
    base = "uniform"

    def __init__(self, width):
        object.__setattr__(self, "theta", positive("width", width))

    def scales(self, theta):
        return theta.unsqueeze(1) / 2

    @staticmethod
    def _gap(p_a, p_b):
        return (p_a - p_b) / 2

    def soft_gap(self, p_a, p_b):
        return (p_a - p_b) / 2


@pytest.fixture(scope="module")
def asked(trained_digits) -> Configuration:
    """Twelve digits with wide noise."""
    return Configuration(
        str(trained_digits), "digits", 1.0, norm="l1", noise="width", method="isotropic", n=500, skip=30, max=12,
        device="cpu",
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(asked, do, tmp_path_factory):
    """A run through a memory."""
    folder = tmp_path_factory.mktemp("width")
    assert do(replace(asked, memory=str(folder / "memory.sqlite")), folder / "run").finished
    return folder / "run"


def test_a_run_by_it_is_that_of_uniform_noise_of_half_the_width(asked, run, do, tmp_path):
    do(replace(asked, noise="uniform", sigma=0.5), tmp_path / "uniform")
    own, uniform = read_run(run), read_run(tmp_path / "uniform")
    assert set(own.column("noise")) == {"width"}
    assert set(uniform.column("noise")) == {"uniform"}
    assert (own.column("radius") > 0).sum() >= 6
    assert np.array_equal(own.column("top_votes"), uniform.column("top_votes"))
    assert np.allclose(own.column("radius"), uniform.column("radius"), rtol=1e-10)


def test_it_is_verified_and_its_votes_are_drawn_again(run):
    found = verify(run)
    assert found.ok, found.findings
    assert found.undone == ()
    assert list(recount(found.run, found.run.column("idx").tolist()[:2])) == []


def test_its_certificates_are_remembered_with_its_name(run):
    with Memory.open(run.parent / "memory.sqlite", read_only=True) as memory:
        assert memory.check().ok
        assert {entry.noise for entry in memory.entries()} == {"width"}


def test_it_is_shown_and_reported_by_its_own_symbol(run, tmp_path):
    stored = read_run(run)
    number = int(stored.column("idx")[int(np.argmax(stored.column("radius")))])
    for arguments, page in ((["show", str(run), str(number)], "one.html"), (["report", str(run)], "report.html")):
        said = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / page)])
        assert said.exit_code == 0, said.output
    assert "w = 1" in (tmp_path / "one.html").read_text()
    assert "uniform (by width) noise is added" in (tmp_path / "one.html").read_text()
    assert '<th class="text">w</th>' in (tmp_path / "report.html").read_text()


def test_its_certificates_are_attacked_under_its_own_noise(run):
    stored = read_run(run)
    network, inputs = stored.network(), stored.inputs()
    certificates = [stored.certificate(row["idx"], inputs(row["idx"])) for row in stored.rows if row["radius"] > 0][:2]
    targets = Targets.of(network, certificates, seed=0)
    assert type(targets.query.smoothing) is Width
    assert attack(network, certificates, how=Search(starts=1, steps=2), n=200).broken == ()


def test_a_certificate_under_a_noise_that_nobody_defined_here(run, monkeypatch):
    monkeypatch.delitem(NOISES, "width")
    assert {finding.what for finding in verify(run).findings} == {
        "noise is 'width', which is not known here: import the file that defines it"
    }
    with pytest.raises(ArgumentError, match=r"got 'width': .* once its file is imported"):
        _ = read_run(run).configuration


def test_every_noise_has_a_name_of_its_own():
    with pytest.raises(ArgumentError, match=r'expected a name in noise .*Nameless, as in name = "gaussian", got None'):
        type("Nameless", (Gaussian,), {})
    with pytest.raises(ArgumentError, match=r"expected a new name for noise .*Other, got 'gaussian', which is"):
        type("Other", (Gaussian,), {"name": "gaussian"})
    assert NOISES["gaussian"] is Gaussian


def test_a_noise_may_be_defined_again(monkeypatch):
    monkeypatch.setitem(NOISES, "width", Width)
    again = type("Width", (Smoothing,), {"name": "width", "__module__": __name__, "__qualname__": "Width"})
    assert NOISES["width"] is again


def test_what_a_norm_means_does_not_depend_on_which_noises_are_defined_or_when(quick, monkeypatch):
    without = {name: noise for name, noise in NOISES.items() if name != "width"}
    for noises in ({"width": Width} | without, without | {"width": Width}, without):
        monkeypatch.setattr(base, "NOISES", noises)
        assert type(replace(quick, norm="l1").smoothing()) is Uniform
        assert replace(quick, norm="l1").to_dict()["noise"] == "uniform"
        assert unnamed("l1", 0.9, 0.1, float(Uniform.gap(0.9, 0.1))) == "uniform"


def test_run_json_names_the_noise_and_one_that_does_not_is_of_the_usual_one(quick):
    for asked in (quick, replace(quick, norm="l1", noise="width")):
        again = Configuration.from_dict(asked.to_dict())
        assert (asked.to_dict()["noise"], again) == (asked.smoothing().name, asked)
        assert differences(again, asked) == []
    earlier = Configuration.from_dict(quick.to_dict() | {"noise": None})
    assert differences(earlier, replace(quick, noise="gaussian")) == []
    assert differences(replace(quick, norm="l1"), replace(quick, norm="l1", noise="width")) == [
        "noise: uniform -> width"
    ]


def test_training_draws_its_own_scale(half_space):
    x, own, half = torch.zeros(4000, 2), Width(1.0), Uniform(0.5)
    for one, other in ((own, half), (Width([1.0, 3.0]), Uniform([0.5, 1.5]))):
        torch.manual_seed(0)
        drawn = noise_like(x, one)
        torch.manual_seed(0)
        assert torch.equal(drawn, noise_like(x, other))
    points = np.random.default_rng(0).normal(0.3, 0.3, (500, 2)).astype(np.float32)
    data = Dataset("points", points, np.zeros(500, np.int64), np.arange(500), 2, mean=(0.0,), std=(1.0,))
    network = half_space([1.0, 0.0]).eval()
    accuracies = [noisy_accuracy(network, data, noise, seed=1) for noise in (own, half, Uniform(1.0))]
    assert accuracies[0] == accuracies[1] != accuracies[2]


def test_the_search_for_theta_draws_its_own_scale(half_space):
    network, x = half_space([1.0, 0.0]).eval(), torch.tensor([[0.3, 0.1]])

    def soft(smoothing, theta):
        votes = SoftVotes(Problem(Query.of(Network(network, 2), smoothing, x), "logits"), 16)
        return votes.mean(torch.full_like(x, theta), 0, 16)

    assert torch.equal(soft(Width(1.0), 1.0), soft(Uniform(0.5), 0.5))


def test_diagnosis_draws_its_own_scale(half_space, monkeypatch):
    sample = Sample(torch.tensor([[0.3, 0.1], [-0.2, 0.5]]), np.array([0, 1]), [0, 1])
    found = {}
    for noise, sigma in (("width", 1.0), ("uniform", 0.5)):
        monkeypatch.setitem(USUAL, "l1", noise)
        (found[noise],) = probe(Network(half_space([1.0, 0.0]).eval(), 2), sample, "l1", [sigma], ac.Plan(n=1000))
    assert found["width"].accuracy == found["uniform"].accuracy < 1
    assert found["width"].sharpness == found["uniform"].sharpness


def test_the_noise_is_the_usual_one_of_the_norm_or_one_of_that_norm(quick):
    assert type(quick.smoothing()) is Gaussian
    assert type(replace(quick, norm="l1").smoothing()) is Uniform
    assert replace(quick, noise="gaussian") == quick
    with pytest.raises(ArgumentError, match="expected norm l1 with uniform noise, got l2"):
        replace(quick, noise="uniform")
    with pytest.raises(ArgumentError, match=r"expected noise to be one of gaussian, .*, got 'laplace'"):
        replace(quick, noise="laplace")
    with pytest.raises(ArgumentError, match="got gaussian-mixture, whose weights"):
        replace(quick, noise="gaussian-mixture")
