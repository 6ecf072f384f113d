"""Diagnoses of networks whose behaviour under noise is known."""

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm as normal
from typer.main import get_command

import anisocert as ac
from anisocert.cli.app import app
from anisocert.data import digits, prepared
from anisocert.diagnosis import GRID, Diagnosis, Recommendation, diagnose, probe
from anisocert.diagnosis._words import _choice, trained_on_noise
from anisocert.diagnosis.commands import certifying, remedies
from anisocert.diagnosis.diagnosing import _best
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


def job_of(path, **options):
    options = {"numerics": Numerics(rows=320)} | options  # a network gets ready sooner with few
    return load_job(Configuration(str(path), "digits", 1.0, method="fixed", **options))


def half_space_sample(half_space, distance):
    network = ac.Network(half_space([1.0, 0.0]).eval(), 2, numerics=Numerics("float32", False, 160))
    x = torch.tensor([[distance, 0.0]]).repeat(16, 1)
    return network, Sample(x, np.zeros(16, np.int64), list(range(16)))


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


def test_the_training_noise_is_where_the_network_is_as_right_as_it_is_sure():
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


def test_a_network_that_is_never_sure_copes_with_no_noise_that_silences_it() -> None:
    """Its scores are calibrated at every level, as those of a linear model with small weights."""
    clean = Level("l2", 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0)
    levels = [replace(clean, sigma=sigma, abstained=none) for sigma, none in ((0.25, 0.1), (1.0, 0.88), (2.0, 1.0))]
    assert matching_noise(clean, levels) == 0.25


@pytest.mark.parametrize(("radius", "norm"), [(0.3, "l2"), (0.6, "l2"), (0.7, "l1")])
def test_l1_is_recommended_where_it_reaches_clearly_farther(radius: float, norm: str) -> None:
    l2 = Level("l2", 0.25, 0.9, 0.9, 0.9, 0.1, 0.5, 0.5, 0.9, 0.1, 1.0)
    levels = (l2, replace(l2, norm="l1", mean_radius=radius))
    best = _best(levels, 0.1)
    recommended = Recommendation(best.sigma, best.norm, "anisotropic", True, "")
    found = Diagnosis("net", "data", 8, 100, 0.1, l2, levels, 0.25, None, (), 1.0, recommended, ())
    assert best.norm == norm
    (said,) = _choice(found)
    assert f"noise 0.25, in {norm} the one with the largest mean radius" in said
    assert ("l1 noise would not reach clearly farther here" in said) == (norm == "l2")


@pytest.mark.precision
def test_a_noise_trained_network_is_told_from_a_plain_one(trained_digits, plain_digits):
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
    asked = f"--classifier {plain_digits} --data digits --norm l2 --sigma {max(0.25, lost.sigma):g}"
    assert [one.commands[0] for one in plain.remedies] == [
        f"anisocert train --recipe {recipe} {asked} --out {recipe.upper()}" for recipe in ("denoiser", "distillation")
    ]
    assert "more votes will not help. The commands are below." in " ".join(plain.findings)
    assert noisy.remedies == ()
    assert noisy.recommendation.useful
    assert noisy.recommendation.sigma in (0.18, 0.25, 0.35)
    assert (noisy.recommendation.norm, noisy.recommendation.method) == ("l2", "anisotropic")
    said = re.search(r"can exceed a radius of ([\d.]+),.* is estimated at ([\d.]+), with", " ".join(noisy.findings))
    level = next(one for one in noisy.levels if one.sigma == noisy.recommendation.sigma)
    assert level.farthest <= float(said[1]) < level.farthest + 0.0011, "a bound is rounded up"
    assert level.mean_radius - 0.0011 < float(said[2]) <= level.mean_radius, "what is reached is rounded down"
    best = {d: max(one.mean_radius for one in found.levels) for d, found in (("noisy", noisy), ("plain", plain))}
    assert best["noisy"] > best["plain"]


@pytest.fixture
def rows_of_small_units(tmp_path, monkeypatch):
    """A network for rows of four values, none above 0.03, that stands no noise to speak of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small_units.py").write_text(
        "import torch\n"
        "class Parity(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        z = torch.sin(x[:, :1] * 3.14159 / 0.00317)\n"
        "        return 30 * torch.cat([z, -z], 1)\n"
        "def net(): return Parity().eval()\n"
    )
    place = np.random.default_rng(0).integers(0, 8, 40)
    np.savez("rows.npz", x=np.repeat((0.00317 * (place + 0.5))[:, None], 4, 1).astype(np.float32), y=place % 2)
    return load_job(Configuration("small_units:net", "rows.npz", 1.0, method="fixed", numerics=SETTLED))


def test_rows_are_not_advised_what_takes_images_and_get_a_grid_that_fits(rows_of_small_units):
    found = diagnose(rows_of_small_units, "cpu", inputs=16, votes=20, norms=("l2",))
    said = " ".join(found.findings)
    assert "training on noise: train it yourself, with noise of that sigma added to each batch; more votes" in said
    assert "--recipe" not in said
    assert all(float(f"{one.sigma:.3g}") == one.sigma for one in found.levels)
    assert "--grid" not in certifying(rows_of_small_units, 2**-6, "l2", "fixed")
    grid = re.search(r"--grid (\S+)", certifying(rows_of_small_units, 0.0012, "l2", "fixed"))
    assert 64 <= 0.0012 / float(grid[1]) < 128


def recipes(job, **changes):
    job = replace(job, configuration=replace(job.configuration, **changes))
    found = [one.commands[0] for one in remedies(job, 0.3, "l2", "fixed")]
    return [re.search("--recipe ([a-z]+) |prepare", command)[1] for command in found]


def test_remedies_are_recommended_only_where_they_can_be_trained(plain_digits):
    job = job_of(plain_digits, numerics=SETTLED)
    assert recipes(job) == ["denoiser", "distillation"]
    small = replace(job.examples, pixels=job.examples.pixels[:, :, :6, :6])
    assert recipes(replace(job, examples=small)) == ["distillation"]  # even, and no multiple of 4
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    assert recipes(replace(job, model=own)) == ["denoiser"]  # no file could say what it is
    told = Denoised(job.model, Denoiser("denoiser-small", (1, 8, 8), [0.5], [0.5]))
    assert recipes(replace(job, model=told)) == []
    for other in ({"layout": "channels-first"}, {"outputs": "probabilities"}):
        assert recipes(job, **other) == []  # `train` could not be told
    read = replace(job, configuration=replace(job.configuration, mean=(0.5,), std=(0.25,)))
    front, tuned = (one.commands for one in remedies(read, 0.3, "l2", "fixed"))
    assert all("--mean 0.5 --std 0.25" in command for command in (*front, tuned[0]))
    assert "--mean" not in tuned[1]  # its file says it


def test_without_a_train_split_the_command_that_makes_one_comes_first(plain_digits, tmp_path, monkeypatch):
    monkeypatch.setenv("ANISOCERT_DATA", str(tmp_path))
    job = job_of(plain_digits, numerics=SETTLED)
    prepared.write(tmp_path / "imagenet", {"test": job.examples})
    job = replace(job, configuration=replace(job.configuration, data="imagenet"))
    first, *others = remedies(job, 0.3, "l2", "fixed")
    assert "a train split, which imagenet does not have" in first.what
    assert first.commands == ("anisocert data prepare imagenet FOLDER --test-every 10 --force",)
    assert len(others) == 2
    np.savez(tmp_path / "test.npz", x_test=job.examples.x[:2], y_test=[0, 1])
    assert recipes(job, data=str(tmp_path / "test.npz")) == []  # of which nothing can be made
    place = str(tmp_path / "imagenet")
    job = replace(
        job, configuration=replace(job.configuration, data=place), examples=replace(job.examples, scaled=(256, 64))
    )
    made = f"anisocert data prepare imagenet FOLDER --out {place} --crop 64 --test-every 10 --force"
    assert next(remedies(job, 0.3, "l2", "fixed")).commands == (made,)
    prepared.write(tmp_path / "imagenet", dict.fromkeys(("train", "test"), job.examples))
    assert recipes(job) == ["denoiser", "distillation"]


def context_of(command):
    """What a command line says, once the program has taken it."""
    program, *names = shlex.split(command)
    assert program == "anisocert"
    found, rest = get_command(app), names
    while hasattr(found, "commands"):
        found, rest = found.commands[rest[0]], rest[1:]
    return found.make_context(names[0], rest).params


def test_remedies_are_commands_that_the_program_takes(plain_digits):
    job = job_of(plain_digits, numerics=SETTLED, n=500)
    denoiser, tuned = remedies(job, 0.3, "l1", "fixed")
    for one, recipe in ((denoiser, "denoiser"), (tuned, "distillation")):
        training, certifying = map(context_of, one.commands)
        made = f"{training['out']}/last.safetensors"
        assert (training["recipe"], str(training["classifier"])) == (recipe, str(plain_digits))
        assert (training["sigma"], certifying["sigma"], certifying["norm"], certifying["n"]) == (0.3, 0.3, "l1", 500)
        front = recipe == "denoiser"
        assert certifying["model"] == (str(plain_digits) if front else made)
        assert certifying["denoise"] == (made if front else None)
    outs = [context_of(one.commands[1]) for one in (denoiser, tuned)]
    assert len({(str(one["out"]), one["memory"]) for one in outs} | {("RUN", "memory.sqlite")}) == 3


def test_the_recommended_command_is_one_that_certify_takes(trained_digits):
    found = diagnose(job_of(trained_digits, numerics=SETTLED), "cpu", inputs=8, votes=10, sigmas=(0.25,), norms=("l2",))
    said = context_of(found.recommendation.command)
    assert said["sigma"] == 0.25
    assert said["method"] == "anisotropic"
    assert said["memory"] is not None
    assert said["model"] == str(trained_digits)


def test_costs(trained_digits):
    job = job_of(trained_digits, n=2000, numerics=SETTLED)
    found = diagnose(job, "cpu", inputs=4, votes=10, sigmas=(0.25,), norms=("l2",))
    assert [cost.method for cost in found.costs] == ["fixed", "isotropic", "anisotropic"]
    assert found.costs[0].evaluations == 2100
    assert found.costs[0].evaluations < found.costs[1].evaluations < found.costs[2].evaluations
    assert found.votes_per_second > 0


def test_a_plan_that_can_never_certify_is_said_first(trained_digits):
    job = job_of(trained_digits, n=9, numerics=SETTLED)
    found = diagnose(job, "cpu", inputs=4, votes=10, sigmas=(0.25,), norms=("l2",))
    assert found.findings[0].startswith("Every input will abstain, whatever the network: 9 votes are too few")
    assert found.levels[0].abstained == 1.0


@pytest.mark.precision
def test_a_network_that_is_wrong_without_noise_is_not_blamed_on_noise(tmp_path):
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
def test_a_network_that_answers_one_class_under_noise(trained_digits):
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
def test_inputs_in_other_units_get_a_grid_of_their_own(tmp_path):
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
