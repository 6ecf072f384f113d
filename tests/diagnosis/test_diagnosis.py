"""Diagnoses of networks whose behaviour under noise is known."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm as normal

import anisocert as ac
from anisocert.data import digits, prepared
from anisocert.diagnosis import GRID, diagnose, probe
from anisocert.diagnosis._words import trained_on_noise
from anisocert.diagnosis.diagnosing import _denoiser
from anisocert.diagnosis.probing import Level, Sample, matching_noise
from anisocert.engine import Numerics
from anisocert.models import Denoised, Denoiser, build, save
from anisocert.runs import Configuration
from anisocert.train import Cohen, Sgd, train
from anisocert.work import load_job

PLAN = ac.Plan(n=10_000)
SETTLED = Numerics("float32", False, 160)  # how the network runs is not tried out first


@pytest.fixture(scope="session")
def plain_digits(tmp_path_factory):
    """The network of `trained_digits`, trained without noise, until it is sure of itself."""
    data = digits("train")
    torch.manual_seed(0)
    model = build("small-cnn", 10, data.mean, data.std)
    train(model, data, Cohen(), ac.Gaussian(1e-6), sgd=Sgd.suited(len(data), 15), seed=0)
    path = tmp_path_factory.mktemp("plain") / "digits.safetensors"
    save(model, path, {"architecture": "small-cnn", "num_classes": 10, "mean": data.mean, "std": data.std})
    return path


@pytest.fixture
def quick(monkeypatch):
    """Speed is measured in a moment."""
    monkeypatch.setattr("anisocert.work.forecast.PROBE_SECONDS", 0.01)


def job_of(path, **options):
    options = {"numerics": Numerics(rows=320)} | options  # a network gets ready sooner with few
    return load_job(Configuration(str(path), "digits", 1.0, method="fixed", **options))


def half_space_sample(half_space, distance, count=16):
    network = ac.Network(half_space([1.0, 0.0]).eval(), 2, numerics=Numerics("float32", False, 160))
    x = torch.tensor([[distance, 0.0]]).repeat(count, 1)
    return network, Sample(x, np.zeros(count, np.int64), list(range(count)))


def test_levels_are_what_the_plane_s_distance_says(half_space):
    network, sample = half_space_sample(half_space, 1.0)
    levels = list(probe(network, sample, "l2", [0.5, 1.0, 4.0], PLAN, votes=500))
    for level in levels:
        share = normal.cdf(1 / level.sigma)
        assert level.accuracy == pytest.approx(share, abs=0.02)
        assert level.largest_class == pytest.approx(share, abs=0.02)
        assert level.farthest == pytest.approx(level.sigma * normal.ppf(0.001 ** (1 / PLAN.n)), rel=1e-6)
        assert level.smoothed == 1.0
    # an estimate of the radius, from few votes on the safe side of the truth
    assert 0.75 < levels[1].mean_radius < 1.1
    assert levels[2].certified == 1.0
    lower = list(probe(network, sample, "l2", [1.0], replace(PLAN, n=10), votes=500))
    assert lower[0].abstained == 1.0
    assert lower[0].mean_radius == lower[0].certified == 0.0


def test_uniform_noise_too(half_space):
    network, sample = half_space_sample(half_space, 0.5)
    (level,) = probe(network, sample, "l1", [1.0], PLAN, votes=500)
    assert level.accuracy == pytest.approx(0.75, abs=0.02)
    assert level.farthest == pytest.approx(2 * 0.001 ** (1 / PLAN.n) - 1, rel=1e-6)


def test_wrong_answers_have_no_radius(half_space):
    network, sample = half_space_sample(half_space, -1.0)
    (level,) = probe(network, sample, "l2", [0.5], PLAN)
    assert (level.smoothed, level.certified, level.mean_radius) == (0.0, 0.0, 0.0)
    assert level.abstained == 0.0


def test_the_training_noise_is_where_the_network_is_as_right_as_it_is_sure(half_space):
    """Scores whose softmax is the true posterior of two classes under noise of strength 1, and under no other."""

    class Posterior(torch.nn.Module):
        def forward(self, x):
            # classes at -1 and 1 under N(0, 1): the log odds are 2 x
            return torch.cat([-x, x], 1)

    network = ac.Network(Posterior().eval(), 2, numerics=Numerics("float32", False, 800))
    y = np.arange(64) % 2
    x = torch.from_numpy(2.0 * y[:, None] - 1).float()
    sample = Sample(x, y, list(range(64)))
    levels = list(probe(network, sample, "l2", GRID, PLAN, votes=50))
    (clean,) = probe(network, sample, "l2", [1e-6], PLAN, votes=1)
    assert matching_noise(clean, levels) == pytest.approx(1.0)
    at_one = next(level for level in levels if level.sigma == 1.0)
    assert at_one.sharpness == pytest.approx(1.0, rel=0.2)
    assert levels[-1].sharpness < 0.6


@pytest.mark.precision
def test_a_noise_trained_network_is_told_from_a_plain_one(trained_digits, plain_digits, quick):
    noisy = diagnose(job_of(trained_digits), "cpu", votes=40, norms=("l2",))
    plain = diagnose(job_of(plain_digits), "cpu", votes=40, norms=("l2",))
    assert trained_on_noise(noisy)
    assert not trained_on_noise(plain)
    assert 0.18 <= noisy.matches <= 0.35
    assert plain.matches < noisy.matches
    assert "like a network that was trained on it" in noisy.findings[0]
    assert "trained without noise" in plain.findings[0]
    assert any("needs training on noise" in one for one in plain.findings)
    assert not any("needs training on noise" in one for one in noisy.findings)
    lost = next(one for one in plain.levels if one.abstained >= 0.5 or one.certified < 0.5 * plain.clean.smoothed)
    asked = f"anisocert train --recipe denoiser --classifier {plain_digits} --data digits --norm l2"
    assert plain.denoiser == f"{asked} --sigma {max(0.25, lost.sigma):g} --out DENOISER"
    assert any(f"({plain.denoiser}, then --denoise DENOISER/last.safetensors)" in one for one in plain.findings)
    assert noisy.recommendation.useful
    assert noisy.recommendation.sigma in (0.18, 0.25, 0.35)
    assert (noisy.recommendation.norm, noisy.recommendation.method) == ("l2", "anisotropic")
    said = re.search(r"can exceed a radius of ([\d.]+),.* is estimated at ([\d.]+), with", " ".join(noisy.findings))
    level = next(one for one in noisy.levels if one.sigma == noisy.recommendation.sigma)
    assert level.farthest <= float(said[1]) < level.farthest + 0.0011, "a bound is rounded up"
    assert level.mean_radius - 0.0011 < float(said[2]) <= level.mean_radius, "what is reached is rounded down"
    best = {d: max(one.mean_radius for one in found.levels) for d, found in (("noisy", noisy), ("plain", plain))}
    assert best["noisy"] > best["plain"]


def test_a_denoiser_is_recommended_only_where_one_can_be_trained(plain_digits, tmp_path):
    clean, lost = (
        Level("l2", 0.3, *(share,) * 3, 1 - share, 0.0, 0.0, 0.0, 0.1, 1.0)  # right everywhere, and nowhere
        for share in (1.0, 0.0)
    )
    job = job_of(plain_digits, numerics=SETTLED)
    assert " --data digits --norm l2 --sigma 0.3 " in _denoiser(job, [lost], clean, 1.0)
    assert not _denoiser(job, [clean], clean, 1.0)
    small = replace(job.examples, pixels=job.examples.pixels[:, :, :6, :6])
    assert not _denoiser(replace(job, examples=small), [lost], clean, 1.0)  # even, and no multiple of 4
    told = Denoised(job.model, Denoiser("denoiser-small", (1, 8, 8), [0.5], [0.5]))
    assert not _denoiser(replace(job, model=told), [lost], clean, 1.0)
    for parts in (("test",), ("train", "test")):
        prepared.write(tmp_path, dict.fromkeys(parts, job.examples))
        found = _denoiser(
            replace(job, configuration=replace(job.configuration, data=str(tmp_path))), [lost], clean, 1.0
        )
        assert bool(found) == ("train" in parts)


def test_the_recommended_command_is_one_that_certify_takes(trained_digits, quick):
    import shlex

    from typer.main import get_command

    from anisocert.cli.app import app

    found = diagnose(job_of(trained_digits, numerics=SETTLED), "cpu", inputs=8, votes=10, sigmas=(0.25,), norms=("l2",))
    program, name, *rest = shlex.split(found.recommendation.command)
    assert (program, name) == ("anisocert", "certify")
    context = get_command(app).commands["certify"].make_context("certify", rest)
    assert context.params["sigma"] == 0.25
    assert context.params["method"] == "anisotropic"
    assert context.params["memory"] is not None
    assert context.params["model"] == str(trained_digits)


def test_costs(trained_digits, quick):
    job = job_of(trained_digits, n=2000, numerics=SETTLED)
    found = diagnose(job, "cpu", inputs=4, votes=10, sigmas=(0.25,), norms=("l2",))
    assert [cost.method for cost in found.costs] == ["fixed", "isotropic", "anisotropic"]
    assert found.costs[0].evaluations == 2100
    assert found.costs[0].evaluations < found.costs[1].evaluations < found.costs[2].evaluations
    assert found.votes_per_second > 0


def test_a_plan_that_can_never_certify_is_said_first(trained_digits, quick):
    job = job_of(trained_digits, n=9, numerics=SETTLED)
    found = diagnose(job, "cpu", inputs=4, votes=10, sigmas=(0.25,), norms=("l2",))
    assert found.findings[0].startswith("Every input will abstain, whatever the network: 9 votes are too few")
    assert found.levels[0].abstained == 1.0


@pytest.mark.precision
def test_a_network_that_is_wrong_without_noise_is_not_blamed_on_noise(tmp_path, quick):
    torch.manual_seed(1)
    path = tmp_path / "untrained.safetensors"
    save(
        build("small-cnn", 10, (0.3,), (0.4,)), path,
        {"architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.4,)},
    )  # fmt: skip
    found = diagnose(job_of(path), "cpu", inputs=40, votes=10, sigmas=(0.25,), norms=("l2",))
    assert len(found.findings) == 1
    assert "something before the noise is wrong" in found.findings[0]
    assert not found.recommendation.useful


@pytest.mark.precision
def test_a_network_that_answers_one_class_under_noise(tmp_path, quick, trained_digits):
    """Beyond some noise everything becomes class 3: certificates there are large, and worth nothing."""
    from anisocert import models

    class Collapsing(torch.nn.Module):
        def __init__(self, network):
            super().__init__()
            self.network = network

        def forward(self, x):
            rough = (x[:, :, 1:] - x[:, :, :-1]).square().mean((1, 2, 3))
            collapsed = torch.nn.functional.one_hot(torch.tensor(3), 10) * 100.0
            return torch.where((rough > 1.0)[:, None], collapsed, self.network(x))

    job = replace(job_of(trained_digits), model=Collapsing(models.load(trained_digits)[0]).eval())
    found = diagnose(job, "cpu", inputs=32, votes=20, norms=("l2",))
    assert any("the same answer: certificates there are large and mean nothing" in one for one in found.findings)
    assert found.recommendation.sigma < 0.7


@pytest.mark.precision
def test_inputs_in_other_units_get_a_grid_of_their_own(tmp_path, quick):
    """Values from 0 to 200: the noise levels are as many times as large."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 64)
    x = (np.stack([200.0 * y, rng.uniform(0, 200, 64)], 1)).astype(np.float32)
    np.savez(tmp_path / "wide.npz", x=x, y=y)
    (tmp_path / "users_plane.py").write_text(
        "import torch\nfrom torch import nn\nclass Plane(nn.Module):\n    def forward(self, x):\n"
        "        return torch.stack([100 - x[:, 0], x[:, 0] - 100], 1)\ndef plane(): return Plane()\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        job = load_job(Configuration("users_plane:plane", "wide.npz", 1.0, method="fixed", n=1000))
        found = diagnose(job, "cpu", votes=20, norms=("l2",))
    assert [one.sigma for one in found.levels] == pytest.approx([200 * sigma for sigma in GRID], rel=0.02)
    assert found.recommendation.useful
    assert found.recommendation.sigma > 10
