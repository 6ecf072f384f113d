from types import SimpleNamespace

import numpy as np
import pytest
import torch

from anisocert.smoothing import Gaussian, Uniform
from lent import lent


class Sign(torch.nn.Module):
    """Class 1 where the first value is positive; told a large theta of the second one, always class 0."""

    told_theta = True

    def forward(self, pair):
        first = pair[:, 0, 0] - 100.0 * (pair[:, 1, 1] > 1)
        return torch.stack([-first, first], 1)


def test_a_theta_that_speaks_for_its_class_is_found_out():
    x, y = torch.tensor([[1.0, 0.0], [-1.0, 0.0]] * 50), torch.tensor([1, 0] * 50)
    honest, speaking = np.array([[0.1, 0.2], [0.1, 1.5]], np.float32)
    rows = [{"idx": 0, "prediction": 0, "proxy_radius": 2.0}, {"idx": 1, "prediction": 1, "proxy_radius": 1.0},
            {"idx": 2, "prediction": -1, "proxy_radius": 0.0}]  # fmt: skip
    run = SimpleNamespace(module=Sign, rows=rows, thetas={0: speaking, 1: honest, 2: honest}, noise=Gaussian)
    small, large = lent(run, x, y, 40, 8)
    assert small.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert large.tolist() == [[0.5, 1.0], [1.0, 0.0]], "under theta all are of its class; under flat noise none"


class Far(torch.nn.Module):
    """Class 1 where a value lies farther from 0 than uniform noise reaches."""

    def forward(self, x):
        far = x.abs().amax(1) - 1
        return torch.stack([-far, far], 1)


@pytest.mark.parametrize(("noise", "right"), [(Uniform, 1.0), (Gaussian, 0.0)])
def test_the_noise_is_that_of_the_run(noise, right):
    run = SimpleNamespace(module=Far, noise=noise, thetas={0: np.ones(50, np.float32)},
                          rows=[{"idx": 0, "prediction": 0, "proxy_radius": 1.0}])  # fmt: skip
    x, y = torch.zeros(3, 50), torch.tensor([0, 0, 0])
    assert lent(run, x, y, 1, 8)[0, :, 0].tolist() == [right, right]
