"""A denoiser in front of a network: one classifier, with one hash."""

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert import models
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Denoised, build, denoised, save

USERS = """
import torch
from torch import nn

class Blur(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.width = width
    def forward(self, x):
        return nn.functional.avg_pool2d(x, self.width, 1, self.width // 2, count_include_pad=False)

def narrow(): return Blur(3)
def wide(): return Blur(5)
def learned():
    torch.manual_seed(0)
    return nn.Conv2d(1, 1, 3, padding=1)
def bare(): return lambda x: x
def scores(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


class Shift(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by))

    def forward(self, x):
        return x + self.by


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "users_denoisers.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    described = {"architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.4,)}
    save(
        build("small-cnn", 10, (0.3,), (0.4,)), tmp_path / "net.safetensors", described | {"sigma": 0.25, "norm": "l2"}
    )
    return tmp_path / "net.safetensors"


def test_it_is_the_network_after_the_denoiser(file):
    bare, said = models.load(file)
    model, known = models.load(file, denoise="users_denoisers:narrow")
    x = torch.rand(4, 1, 8, 8)
    expected = bare(nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False))
    assert torch.allclose(model(x), expected)
    assert not torch.allclose(bare(x), expected)
    assert not any(m.training for m in model.modules())
    assert said["sigma"] == 0.25
    assert "sigma" not in known
    assert known["denoise"] == "users_denoisers:narrow"
    assert known["num_classes"] == 10


@pytest.mark.precision
def test_the_hash_covers_weights_and_settings_of_the_denoiser(file):
    def digest(denoise):
        return ac.Network(models.load(file, denoise=denoise)[0], 10).hash

    names = [None, "users_denoisers:narrow", "users_denoisers:wide", "users_denoisers:learned"]
    assert len({digest(name) for name in names}) == 4
    assert digest("users_denoisers:narrow") == digest("users_denoisers:narrow")
    network = models.load(file)[0]
    assert (
        ac.Network(denoised(network, Shift(0.0).eval()), 10).hash
        != ac.Network(denoised(network, Shift(0.1).eval()), 10).hash
    )


@pytest.mark.precision
def test_certificates_are_those_of_the_two_together(half_space):
    """A denoiser that shifts inputs towards the plane: the certificate shrinks by as much."""
    plain, far = half_space([1.0, 0.0]).eval(), np.array([[2.0, 0.0]], np.float32)
    both = denoised(plain, Shift(-1.0).eval())
    assert isinstance(both, Denoised)
    found = ac.certify(both, far, num_classes=2, smoothing=ac.Gaussian(1.0), plan=ac.Plan(n=20_000))[0]
    assert 0.9 < found.radius <= 1.0


def test_the_two_stay_in_the_mode_that_they_are_in(half_space):
    plain, denoiser = half_space([1.0, 0.0]).eval(), Shift(0.0)
    both = denoised(plain, denoiser)
    assert denoiser.training
    with pytest.raises(ModelError, match="expected a model in evaluation mode, got training mode in denoiser: call"):
        ac.Network(both, 2)


def test_bare_callables_need_a_name(half_space):
    both = denoised(half_space([1.0, 0.0]).eval(), lambda x: x - 1)
    x = np.array([[2.0, 0.0]], np.float32)
    with pytest.raises(ArgumentError, match="expected model_id"):
        ac.certify(both, x, num_classes=2, smoothing=ac.Gaussian(1.0))
    plan = ac.Plan(n=1000)
    found = ac.certify(both, x, num_classes=2, smoothing=ac.Gaussian(1.0), plan=plan, model_id="plane, shifted by 1")
    assert found[0].prediction == 0


def test_what_is_no_denoiser_is_said(file):
    with pytest.raises(ArgumentError, match=r"expected a denoiser, a .safetensors file .*, got 'blur'"):
        models.load(file, denoise="blur")
    with pytest.raises(ModelError, match=r"expected an nn\.Module from users_denoisers:bare"):
        models.load(file, denoise="users_denoisers:bare")
    with pytest.raises(ArgumentError, match="users_denoisers:nothing"):
        models.load(file, denoise="users_denoisers:nothing")
    with pytest.raises(
        ModelError, match=r"which gives inputs of shape \(1, 8, 8\) back, at users_.*:scores, got \(10,"
    ):
        models.load(file, denoise="users_denoisers:scores", shape=(1, 8, 8))
    models.load(file, denoise="users_denoisers:learned", shape=(1, 8, 8))
