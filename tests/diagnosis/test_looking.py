"""Networks that answer badly before there is any noise, and what is said about them."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from anisocert.diagnosis import diagnose
from anisocert.diagnosis.looking import Look, _share_with, look, outputs_doubt, rounding_doubt, warn_if_wrong
from anisocert.engine import Numerics
from anisocert.errors import AnisocertWarning
from anisocert.runs import Configuration
from anisocert.smoothing import Gaussian
from anisocert.work import load_job

CODE = """
from torch import nn
import torch

class Reads(nn.Module):
    '''Answers with the number that the mean pixel stands for, once inputs are prepared as it expects them.'''
    def __init__(self, levels, turned=False):
        super().__init__()
        self.register_buffer("levels", torch.tensor(levels))
        self.turned = turned
    def forward(self, x):
        mean = x.flatten(1).mean(1, keepdim=True)
        near = -(mean - self.levels).abs()
        return near.flip(1) if self.turned else near

class Counting(Reads):
    calls = 0
    def forward(self, x):
        self.calls += 1
        return super().forward(x)

class Told(Reads):
    '''Works in units of the noise, which it is told.'''
    told_theta = True
    def forward(self, pair):
        return super().forward(pair[:, 0] / pair[:, 1] * pair[:, 1])

class Unsure(Reads):
    '''NaN for what it should call class 0, which argmax takes for the largest score.'''
    def forward(self, x):
        scores = super().forward(x)
        return torch.where(scores.argmax(1, keepdim=True) == 0, float("nan"), scores)

class Strict(Reads):
    def forward(self, x):
        if x.min() < 0 or x.max() > 1:
            raise ValueError("expected inputs in [0, 1]")
        return super().forward(x)

class Noisy(Reads):
    '''Knows only inputs with noise, whose spread it looks for.'''
    def forward(self, x):
        known = x.flatten(1).std(1, keepdim=True) > 0.1
        return super().forward(x) * torch.where(known, 1.0, -1.0)

class Both(Reads):
    '''Knows all classes as bytes, and all but the last in [0, 1].'''
    def forward(self, x):
        plain = self.levels.clone()
        plain[-1] = -9.0
        mean = x.flatten(1).mean(1, keepdim=True)
        return -torch.minimum((mean - plain).abs(), (mean - 255 * self.levels).abs())

class ByNoise(Both):
    '''The same, but with noise it knows all in [0, 1], and none as bytes.'''
    def forward(self, x):
        noisy = x.flatten(1).std(1, keepdim=True) > 0.1
        return torch.where(noisy, Reads.forward(self, x), super().forward(x))

class Years(nn.Module):
    '''Two classes, a year apart, of inputs around 2000.'''
    def __init__(self, inside=False):
        super().__init__()
        self.linear, self.inside = nn.Linear(2, 2), inside
        self.linear.weight.data = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
        self.linear.bias.data = torch.tensor([0.0, 0.0] if inside else [2000.0, -2000.0])
    def forward(self, x):
        return self.linear(x - 2000 if self.inside else x)

def years(): return Years().eval()
def centred_years(): return Years(inside=True).eval()
class Maps(Reads):
    def forward(self, x): return super().forward(x)[:, :, None, None]
class Single(Reads):
    def forward(self, x): return super().forward(x)[:, :1].sigmoid()
class Sure(Reads):
    def forward(self, x): return (30 * super().forward(x)).softmax(1)
def sure(): return Sure([0.2, 0.4, 0.6, 0.8]).eval()
def single(): return Single([0.2, 0.4]).eval()
def maps(): return Maps([0.2, 0.4, 0.6, 0.8]).eval()
def noisy(): return Noisy([0.2, 0.4, 0.6, 0.8]).eval()
def both(): return Both([0.2, 0.4, 0.6, 0.8]).eval()
def by_noise(): return ByNoise([0.2, 0.4, 0.6, 0.8]).eval()

class Level(Reads):
    '''Is told the noise, and knows no other than 0.25.'''
    told_theta = True
    def forward(self, pair):
        level = pair[:, 1].flatten(1).mean(1, keepdim=True)
        return super().forward(pair[:, 0]) * torch.where((level - 0.25).abs() < 1e-4, 1.0, -1.0)

def level(): return Level([0.2, 0.4, 0.6, 0.8]).eval()
def strict(): return Strict([0.2, 0.4, 0.6, 0.8]).eval()
def told(): return Told([0.2, 0.4, 0.6, 0.8]).eval()
def told_of_bytes(): return Told([51.0, 102.0, 153.0, 204.0]).eval()
def unsure(): return Unsure([0.2, 0.4, 0.6, 0.8]).eval()
def counting(): return Counting([0.2, 0.4, 0.6, 0.8]).eval()
def right(): return Reads([0.2, 0.4, 0.6, 0.8]).eval()
def bytes(): return Reads([51.0, 102.0, 153.0, 204.0]).eval()
def centred(): return Reads([-0.6, -0.2, 0.2, 0.6]).eval()
class Blind(Reads):
    def forward(self, x): return self.levels.expand(len(x), -1)
class Saturated(Reads):
    '''Takes bytes; of [0, 1] it gets one answer, whose probability is rounded to 1.'''
    def forward(self, x): return (1e4 * super().forward(x)).softmax(1)
def blind(): return Blind([0.2, 0.4, 0.6, 0.8]).eval()
def saturated(): return Saturated([9.0, 51.0, 102.0, 204.0]).eval()
def turned(): return Reads([0.2, 0.4, 0.6, 0.8], turned=True).eval()
def constant(): return Reads([0.2, 9.0, 9.0, 9.0]).eval()
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images of four grey levels, which are their classes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets_of_levels.py").write_text(CODE)
    y = np.arange(40) % 4
    np.savez(tmp_path / "levels.npz", x=np.repeat((0.2 + 0.2 * y)[:, None], 9, 1).reshape(-1, 1, 3, 3), y=y)
    np.savez(tmp_path / "few.npz", x=np.full((40, 1, 3, 3), 0.2), y=np.zeros(40, int))
    return tmp_path / "levels.npz"


def _job(net: str, data: Path, **options: object):
    return load_job(Configuration(f"nets_of_levels:{net}", str(data), 0.25, **{"method": "fixed", **options}))


def test_a_network_that_answers_well_is_not_doubted(data: Path) -> None:
    assert look(_job("right", data)) == Look(1.0, 0.25, False)
    with warnings.catch_warnings(action="error"):
        warn_if_wrong(_job("right", data))


def test_options_that_mend_it_are_named(data: Path) -> None:
    found = look(_job("bytes", data))
    assert (found.accuracy, found.mended) == (0.25, 1.0)
    with pytest.warns(
        AnisocertWarning, match=r"25% of 32 sampled inputs .*is wrong\. With inputs of 0 to 255 .* it answers 100%"
    ):
        warn_if_wrong(_job("bytes", data))
    found = look(_job("centred", data))
    assert (found.normalization, found.mended) == ("--mean 0.5 --std 0.5", 1.0)
    assert look(_job("centred", data, mean=(0.5,), std=(0.5,))) == Look(1.0, 0.25, False)


def test_a_network_that_is_told_theta_is_looked_at_under_hardly_any_noise(data: Path) -> None:
    """Told none at all it might divide by it. Its normalisation is its own: no other goes in front of what it takes."""
    assert look(_job("told", data)) == Look(1.0, 0.25, False)
    found = look(_job("told_of_bytes", data))
    assert (found.accuracy, found.normalization) == (0.25, "")
    with pytest.warns(AnisocertWarning, match="something before the noise is wrong"):
        warn_if_wrong(_job("told_of_bytes", data))


@pytest.mark.parametrize("net", ["noisy", "level"])
def test_a_network_that_knows_inputs_with_noise_alone_is_not_doubted(data: Path, net: str) -> None:
    """As one that was trained on a single noise level may. Each look has the same noise, and nobody else's changes."""
    state = torch.get_rng_state()
    found = look(_job(net, data))
    assert torch.equal(torch.get_rng_state(), state)
    assert found.noisy
    assert found.accuracy > 0.6
    assert found.doubt == ""
    torch.rand(3)
    assert look(_job(net, data)) == found
    other = look(_job(net, data), Gaussian(1e-4))
    assert (other.accuracy, other.noisy) == (0.0, False)
    assert other.doubt


def test_diagnosing_looks_under_the_noise_that_it_recommends(data: Path) -> None:
    found = diagnose(_job("noisy", data), "cpu", inputs=32, votes=20, sigmas=(1e-3, 0.25), norms=("l2",))
    assert found.clean.accuracy == 0
    assert found.recommendation.useful
    assert found.recommendation.sigma == 0.25
    assert not [line for line in found.findings if "something before the noise" in line or "normalisation" in line]


def test_a_normalisation_is_judged_where_the_network_knows_its_inputs(data: Path) -> None:
    """A better one without noise is none for a network that was trained with noise, if it is not better there."""
    assert "its normalisation seems to be missing. With inputs of 0 to 255" in look(_job("both", data)).doubt
    assert look(_job("both", data)).doubt.startswith("Under the noise it answers ")
    found = look(_job("by_noise", data), Gaussian(1e-4))
    assert (found.accuracy, found.mended) == (0.75, 1.0)
    found = look(_job("by_noise", data))
    assert (found.doubt, found.noisy) == ("", True)


def test_luck_under_noise_excuses_nothing() -> None:
    """Nor does one answer to all, which is right for the most frequent label."""
    assert not Look(13 / 32, 0.25, False).knowing(0.25)
    assert Look(17 / 32, 0.25, False).knowing(0.25)
    assert not Look(17 / 32, 0.25, False).knowing(0.5)
    assert not Look(2 / 32, 1e-3, False).knowing(1 / 32), "of many classes a few may be right for any reason"
    lucky = np.random.default_rng(0).binomial(32, 0.25, 50_000) / 32
    assert np.mean([Look(share, 0.25, False).knowing(0.25) for share in lucky]) < 2e-3


def test_a_normalisation_that_the_network_does_not_take_is_none(data: Path) -> None:
    assert look(_job("strict", data)) == Look(1.0, 0.25, False)


def test_nan_is_no_answer(data: Path) -> None:
    found = look(_job("unsure", data))
    assert found.accuracy == 0.75


def test_a_tie_is_no_sign_of_another_normalisation() -> None:
    """A sigmoid that saturates at 0 has the negative for its other score, and argmax takes the first."""

    class Saturated(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(x), 2).index_fill(0, torch.tensor([0]), 1.0) * torch.tensor([1.0, 0.5])

    x, y = torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64)
    assert _share_with(((0.0,), (1.0,)), Saturated(), x, y) == 0.25


def test_wrong_classes_and_one_answer_for_all(data: Path) -> None:
    with pytest.warns(
        AnisocertWarning, match=r"answers 0% of 32 sampled inputs correctly, and chance is 25%: something before"
    ):
        warn_if_wrong(_job("turned", data))
    found = look(_job("constant", data))
    assert found.one_answer
    assert found.doubt


def test_chance_among_many_classes_is_not_rounded_to_nothing() -> None:
    assert "answers 0% of 32 sampled inputs correctly, and chance is 1 in 1,000" in Look(0.0, 0.001, False).doubt


def test_scores_that_depend_on_no_input_are_no_question_of_its_range(data: Path) -> None:
    found = look(_job("blind", data))
    assert found.constant
    with pytest.warns(AnisocertWarning, match=r"all of 32 sampled inputs the same scores, .*trained network, and"):
        warn_if_wrong(_job("blind", data))
    for net in ("constant", "saturated"):  # whose scores move, or would in another range
        found = look(_job(net, data))
        assert not found.constant
        assert "before the noise is wrong" in found.doubt


@pytest.mark.parametrize(
    ("right", "inputs", "chance", "doubted"),
    [
        (0, 3, 0.1, False), (0, 4, 0.1, True), (1, 5, 0.1, False), (1, 8, 0.1, True), (3, 32, 0.1, True),
        (0, 2, 0.5, False), (0, 3, 0.5, True), (4, 8, 0.5, False), (8, 16, 0.5, True), (7, 32, 0.1, False),
    ],
)  # fmt: skip
def test_bad_luck_is_told_from_a_bad_network(right: int, inputs: int, chance: float, doubted: bool) -> None:
    """The more inputs, the less can be luck; a warning from few is right as long as a fair network rarely gets it."""
    assert bool(Look(right / inputs, chance, False, inputs=inputs).doubt) == doubted
    fair = np.random.default_rng(0).random((20_000, inputs)) < (1 + chance) / 2
    alarms = [bool(Look(k / inputs, chance, False, inputs=inputs).doubt) for k in range(inputs + 1)]
    assert np.mean(np.array(alarms)[fair.sum(1)]) < 0.055


def test_one_answer_to_all_but_few_inputs_may_be_right() -> None:
    assert Look(0.75, 0.25, True, inputs=8).doubt == ""
    doubt = Look(0.75, 0.25, True, inputs=32).doubt
    assert doubt.startswith("Without any noise it gives all of 32 sampled inputs one class, which 75% of them have: ")
    assert "chance" not in doubt


def test_two_classes_at_95_percent_are_well() -> None:
    assert Look(0.95, 0.5, False).doubt == ""
    assert Look(0.5, 0.5, False).doubt


def test_few_inputs_no_labels_and_one_label_prove_nothing(data: Path) -> None:
    for most in (1, 2):
        found = look(_job("turned", data, max=most))
        assert (found.accuracy, found.inputs, found.doubt) == (0.0, most, "")
    np.savez(data.with_name("unlabelled.npz"), x=np.zeros((40, 1, 3, 3)))
    assert look(_job("right", data.with_name("unlabelled.npz"))) is None
    found = look(_job("right", data.with_name("few.npz")))
    assert found.doubt == ""


def test_looking_does_not_change_the_network(data: Path) -> None:
    job = _job("counting", data)
    assert look(job) is not None
    assert job.model.calls == 0


def test_a_network_that_fails_is_left_to_the_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = _job("right", data)
    monkeypatch.setattr(type(job.model), "forward", lambda self, x: nn.Linear(2, 2)(torch.zeros(1, 3)))
    assert look(job) is None


@pytest.mark.parametrize(
    ("net", "precision", "doubted"),
    [("years", "bfloat16", True), ("years", "float32", False), ("centred_years", "bfloat16", False)],
)
def test_a_precision_that_changes_answers_is_doubted(data: Path, net: str, precision: str, doubted: bool) -> None:
    y = np.arange(40) % 2
    np.savez(data.parent / "years.npz", x=np.stack([1999.5 + y, np.linspace(0, 1, 40)], 1), y=y)
    job = _job(net, data.parent / "years.npz", numerics=Numerics(precision), device="cpu")
    found = rounding_doubt(job)
    assert ("16 of 32 sampled inputs otherwise than in float32: use --precision float32" in found) == doubted
    assert bool(found) == doubted
    if doubted:
        with pytest.warns(AnisocertWarning, match="In bfloat16, which votes here"):
            warn_if_wrong(job)
        elsewhere = replace(job, configuration=replace(job.configuration, device="cuda"))  # as if not said where
        for one in (job, elsewhere):
            assert any(told.startswith("In bfloat16") for told in diagnose(one, "cpu", inputs=8, votes=32).findings)


@pytest.mark.parametrize("net", ["maps", "single"])
def test_scores_of_another_shape_are_left_to_the_run(data: Path, net: str) -> None:
    """One column has no other class to name: it says nothing about normalisation."""
    assert look(_job(net, data)) is None
    with warnings.catch_warnings(action="error"):
        warn_if_wrong(_job(net, data))


@pytest.mark.parametrize(
    ("net", "asked", "doubted"),
    [
        ("sure", {"method": "anisotropic"}, True),
        ("sure", {"method": "anisotropic", "outputs": "probabilities"}, False),
        ("sure", {"method": "isotropic"}, False),
        ("right", {"method": "anisotropic"}, False),
        ("single", {"method": "anisotropic"}, False),
    ],
)
def test_probabilities_are_told_before_a_search_takes_them_for_logits(
    data: Path, net: str, asked: dict[str, str], doubted: bool
) -> None:
    assert bool(outputs_doubt(_job(net, data, **asked))) == doubted
    if doubted:
        words = r"^its scores are probabilities, it seems .*: Anisotropic\(outputs='probabilities'\) \(--outputs prob"
        with pytest.warns(AnisocertWarning, match=words):
            warn_if_wrong(_job(net, data, **asked))
