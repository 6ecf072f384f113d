"""Networks that answer badly before there is any noise, and what is said about them."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from anisocert.diagnosis.clean import Clean, look, warn_if_wrong
from anisocert.errors import AnisocertWarning
from anisocert.runs import Configuration
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

def noisy(): return Noisy([0.2, 0.4, 0.6, 0.8]).eval()
def strict(): return Strict([0.2, 0.4, 0.6, 0.8]).eval()
def told(): return Told([0.2, 0.4, 0.6, 0.8]).eval()
def told_of_bytes(): return Told([51.0, 102.0, 153.0, 204.0]).eval()
def unsure(): return Unsure([0.2, 0.4, 0.6, 0.8]).eval()
def counting(): return Counting([0.2, 0.4, 0.6, 0.8]).eval()
def right(): return Reads([0.2, 0.4, 0.6, 0.8]).eval()
def bytes(): return Reads([51.0, 102.0, 153.0, 204.0]).eval()
def centred(): return Reads([-0.6, -0.2, 0.2, 0.6]).eval()
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
    return load_job(Configuration(f"nets_of_levels:{net}", str(data), 0.25, method="fixed", **options))


def test_a_network_that_answers_well_is_not_doubted(data: Path) -> None:
    assert look(_job("right", data)) == Clean(1.0, 0.25, False)
    with warnings.catch_warnings(action="error"):
        warn_if_wrong(_job("right", data))


def test_options_that_mend_it_are_named(data: Path) -> None:
    found = look(_job("bytes", data))
    assert found is not None
    assert (found.accuracy, found.mended) == (0.25, 1.0)
    with pytest.warns(
        AnisocertWarning, match=r"25% of 32 sampled inputs .*is wrong\. With inputs of 0 to 255 .* it answers 100%"
    ):
        warn_if_wrong(_job("bytes", data))
    found = look(_job("centred", data))
    assert found is not None
    assert (found.normalization, found.mended) == ("--mean 0.5 --std 0.5", 1.0)
    assert look(_job("centred", data, mean=(0.5,), std=(0.5,))) == Clean(1.0, 0.25, False)


def test_a_network_that_is_told_theta_is_looked_at_under_hardly_any_noise(data: Path) -> None:
    """Told none at all it might divide by it. Its normalisation is its own: no other goes in front of what it takes."""
    assert look(_job("told", data)) == Clean(1.0, 0.25, False)
    found = look(_job("told_of_bytes", data))
    assert found is not None
    assert (found.accuracy, found.normalization) == (0.25, "")
    with pytest.warns(AnisocertWarning, match="something before the noise is wrong"):
        warn_if_wrong(_job("told_of_bytes", data))


def test_a_network_that_knows_inputs_with_noise_alone_is_not_doubted(data: Path) -> None:
    """As one that was trained on a single noise level may."""
    found = look(_job("noisy", data))
    assert found is not None
    assert found.accuracy == 0
    assert found.noisy > 0.6
    assert found.doubt == ""


def test_luck_under_noise_excuses_nothing() -> None:
    """Chance alone is below one in a thousand, also where a share without noise is just as low."""
    assert Clean(0.25, 0.25, False, noisy=13 / 32).doubt
    assert not Clean(0.25, 0.25, False, noisy=17 / 32).doubt
    assert Clean(0.75, 0.25, True, noisy=1.0).doubt, "one answer for all, which is right for most"
    lucky = np.random.default_rng(0).binomial(32, 0.25, 50_000) / 32
    assert np.mean([not Clean(0.25, 0.25, False, noisy=share).doubt for share in lucky]) < 2e-3


def test_a_normalisation_that_the_network_does_not_take_is_none(data: Path) -> None:
    assert look(_job("strict", data)) == Clean(1.0, 0.25, False)


def test_nan_is_no_answer(data: Path) -> None:
    found = look(_job("unsure", data))
    assert found is not None
    assert found.accuracy == 0.75


def test_wrong_classes_and_one_answer_for_all(data: Path) -> None:
    with pytest.warns(
        AnisocertWarning, match=r"answers 0% of 32 sampled inputs correctly, and chance is 25%: something before"
    ):
        warn_if_wrong(_job("turned", data))
    found = look(_job("constant", data))
    assert found is not None
    assert found.one_answer
    assert found.doubt


@pytest.mark.parametrize(
    ("right", "inputs", "chance", "doubted"),
    [
        (0, 3, 0.1, False), (0, 4, 0.1, True), (1, 5, 0.1, False), (1, 8, 0.1, True), (3, 32, 0.1, True),
        (0, 2, 0.5, False), (0, 3, 0.5, True), (4, 8, 0.5, False), (8, 16, 0.5, True), (7, 32, 0.1, False),
    ],
)  # fmt: skip
def test_bad_luck_is_told_from_a_bad_network(right: int, inputs: int, chance: float, doubted: bool) -> None:
    """The more inputs, the less can be luck; a warning from few is right as long as a fair network rarely gets it."""
    assert bool(Clean(right / inputs, chance, False, inputs=inputs).doubt) == doubted
    fair = np.random.default_rng(0).random((20_000, inputs)) < (1 + chance) / 2
    alarms = [bool(Clean(k / inputs, chance, False, inputs=inputs).doubt) for k in range(inputs + 1)]
    assert np.mean(np.array(alarms)[fair.sum(1)]) < 0.055


def test_one_answer_to_all_but_few_inputs_may_be_right() -> None:
    assert Clean(0.75, 0.25, True, inputs=8).doubt == ""
    assert Clean(0.75, 0.25, True, inputs=32).doubt


def test_two_classes_at_95_percent_are_well() -> None:
    assert Clean(0.95, 0.5, False).doubt == ""
    assert Clean(0.5, 0.5, False).doubt


def test_few_inputs_no_labels_and_one_label_prove_nothing(data: Path) -> None:
    for most in (1, 2):
        found = look(_job("turned", data, max=most))
        assert found is not None
        assert (found.accuracy, found.inputs, found.doubt) == (0.0, most, "")
    np.savez(data.with_name("unlabelled.npz"), x=np.zeros((40, 1, 3, 3)))
    assert look(_job("right", data.with_name("unlabelled.npz"))) is None
    found = look(_job("right", data.with_name("few.npz")))
    assert found is not None
    assert found.doubt == ""


def test_looking_does_not_change_the_network(data: Path) -> None:
    job = _job("counting", data)
    assert look(job) is not None
    assert job.model.calls == 0


def test_a_network_that_fails_is_left_to_the_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = _job("right", data)
    monkeypatch.setattr(type(job.model), "forward", lambda self, x: nn.Linear(2, 2)(torch.zeros(1, 3)))
    assert look(job) is None
