import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.models import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD, Normalized, build
from anisocert.models.normalize import check_units, warn_of_scales, warn_of_units

RNG = np.random.default_rng(0)
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ((NAN,), (0.5,)),
        ((INF,), (0.5,)),
        ((0.5,), (INF,)),
        ((0.5,), (NAN,)),
        ((0.5,), (0.0,)),
        ((0.5,), (-1.0,)),
        ((0.5,), (1e-50,)),  # 0 in float32
        ((0.5,), (1e39,)),  # infinity in float32
        ((10**400,), (1.0,)),
        ((0.5, 0.5), (0.5,)),
        ((), ()),
        (0.5, 0.5),
        ("0.5", "0.5"),
        (("0.5",), ("0.5",)),
        (([0.5],), ([0.5],)),
        ((None,), (0.5,)),
        ((True,), (True,)),
        ({"a": 1}, (0.5,)),
    ],
)
def test_mean_and_std_that_nothing_can_be_divided_by(mean: object, std: object) -> None:
    with pytest.raises(ArgumentError, match="expected mean"):
        Normalized(nn.Identity(), mean, std)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected mean"):
        build("small-cnn", 10, mean, std)  # type: ignore[arg-type]


def test_normalisation_is_per_channel() -> None:
    x = torch.rand(2, 3, 4, 4)
    found = Normalized(nn.Identity(), (0.5, 0.4, 0.3), (1, 2, 4))(x)
    expected = (x - torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)) / torch.tensor([1.0, 2, 4]).view(3, 1, 1)
    torch.testing.assert_close(found, expected)


def test_one_channel_is_not_taken_for_as_many_as_there_are_means() -> None:
    means, stds, grey = (0.5, 0.4, 0.3), (0.5,) * 3, np.full((2, 1, 4, 4), 0.5, np.float32)
    told = r"with 3 channels, as mean and std have, got 1: .*numpy.repeat\(x, 3, 1\)"
    with pytest.raises(ArgumentError, match=told):
        check_units(grey, means, stds)
    network = Normalized(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)), means, stds).eval()
    with pytest.raises(ArgumentError, match=told):
        ac.certify(network, grey, num_classes=2, smoothing=ac.Gaussian(0.5), plan=ac.Plan(n=20))
    check_units(np.repeat(grey, 3, 1), means, stds)


def pixels(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.float32)


SPARSE = np.where(RNG.random((5, 1, 28, 28)) < 0.15, 200, 0).astype(np.float32)  # as handwriting is: mostly 0


@pytest.mark.parametrize(
    ("x", "mean", "std"),
    [
        (pixels(4, 3, 8, 8), CIFAR10_MEAN, CIFAR10_STD),
        (pixels(4, 3, 8, 8), (0.0,) * 3, (1.0,) * 3),  # a network that takes raw pixels of 0 to 1
        (SPARSE, (0.1307,), (0.3081,)),
        (pixels(1, 3, 8, 8) / 255, (125.3, 123.0, 113.9), (51.6, 50.8, 51.3)),  # a network for 0 to 255
        (pixels(4, 7) + 1000, (0.0,), (1.0,)),
    ],
)
def test_units_out_of_all_proportion(x: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"expected inputs in the network's units, with mean .*, got inputs"):
        check_units(x, mean, std)


@pytest.mark.parametrize(
    ("x", "mean", "std"),
    [
        (pixels(4, 3, 8, 8) / 255, CIFAR10_MEAN, CIFAR10_STD),
        (pixels(4, 3, 8, 8) / 255, IMAGENET_MEAN, IMAGENET_STD),
        (pixels(4, 3, 8, 8) / 255, (0.0,) * 3, (1.0,) * 3),
        (SPARSE / 255, (0.1307,), (0.3081,)),
        (pixels(4, 3, 8, 8), (125.3, 123.0, 113.9), (51.6, 50.8, 51.3)),
        (np.zeros((1, 3, 8, 8), np.float32), CIFAR10_MEAN, CIFAR10_STD),  # black
        (np.ones((1, 3, 8, 8), np.float32), CIFAR10_MEAN, CIFAR10_STD),  # white
        (np.array([[0.0, 1 / 255]], np.float32), (0.5,), (0.25,)),  # all but black
        (np.concatenate([pixels(20, 5) / 255, np.full((1, 5), 1e6, np.float32)]), (0.5,), (0.25,)),  # one outlier
        (pixels(4, 3, 8, 8), None, None),
        (pixels(4, 2, 8, 8), CIFAR10_MEAN, CIFAR10_STD),  # other channels: the network's to refuse
    ],
)
def test_units_that_may_be_right(x: np.ndarray, mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> None:
    check_units(x, mean, std)


def test_noise_that_is_nothing_beside_the_data() -> None:
    warn_of_units(0.12, CIFAR10_STD)
    warn_of_units(0.01, IMAGENET_STD)
    with pytest.warns(AnisocertWarning, match="expected sigma in the units of the data.* 51.6, 50.8, 51.3, got 0.25"):
        warn_of_units(0.25, (51.6, 50.8, 51.3))


def test_features_of_very_different_scales_are_warned_of() -> None:
    x = np.random.default_rng(0).normal(size=(256, 3)).astype(np.float32)
    warn_of_scales(x * np.float32([0, 1, 20]))  # a constant one has no scale
    warn_of_scales(np.float32([[1, 100], [1.001, 500]]))  # too few to tell
    warn_of_scales(x.clip(0, 1) * np.float32([0.001, 1, 1]))  # flattened pixels
    with pytest.warns(
        AnisocertWarning, match=r"standard deviations 0\.1\d* to 9\.\d*\), and one sigma .* take the scaler"
    ):
        warn_of_scales(x * np.float32([0.1, 1, 9.5]))
