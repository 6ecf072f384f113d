"""Networks trained elsewhere load by the same path and do what they did there; needs files that are not shipped."""

import os
from pathlib import Path

import pytest

from anisocert.data import cache, cifar10, load
from anisocert.models import load as load_model
from anisocert.smoothing import Gaussian
from anisocert.train import noisy_accuracy

FOLDER = Path(os.environ.get("ANISOCERT_PRETRAINED") or Path(__file__).parents[3] / "shared" / "models")
ACCURACY = {"0.12": 0.82, "0.25": 0.76, "0.50": 0.64, "1.00": 0.48}


@pytest.mark.parametrize("sigma", ACCURACY)
def test_noisy_accuracy_of_pretrained_networks(sigma: str) -> None:
    path = FOLDER / f"cohen_resnet18_cifar10_sigma{sigma}.safetensors"
    if not path.is_file():
        pytest.skip(f"no pretrained network at {path}: ANISOCERT_PRETRAINED names a folder that has it")
    if cifar10.find(cache.root()) is None:
        pytest.skip(f"no CIFAR-10 in {cache.root()}: anisocert data fetch cifar10")
    model, metadata = load_model(path, num_classes=10)
    assert metadata["architecture"] == "resnet18-paper"
    accuracy = noisy_accuracy(model, load("cifar10").subset(skip=25), Gaussian(float(sigma)))
    # 400 images: four standard errors
    assert accuracy == pytest.approx(ACCURACY[sigma], abs=0.1)
