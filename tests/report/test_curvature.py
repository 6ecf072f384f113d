import numpy as np
import pytest
import torch
from torch import nn

from anisocert.report._curvature import SmoothProbability, lanczos
from anisocert.report._landscape import bent_directions, outline


def symmetric(values):
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(len(values), len(values))))
    return q @ np.diag(values) @ q.T


def test_all_steps_give_all_eigenvalues():
    values = np.array([5.0, -4.0, 3.0, 1.0, 0.5, -0.1, 0.0])
    matrix = symmetric(values)
    found, vectors = lanczos(lambda v: matrix @ v, 7, 50)
    assert found == pytest.approx(values, abs=1e-9)
    assert vectors.T @ vectors == pytest.approx(np.eye(7), abs=1e-9)
    assert matrix @ vectors == pytest.approx(vectors * found, abs=1e-9)


def test_repeated_eigenvalues_do_not_end_it():
    found, vectors = lanczos(lambda v: 2.0 * v, 5, 5)
    assert found == pytest.approx(np.full(5, 2.0))
    assert vectors.T @ vectors == pytest.approx(np.eye(5), abs=1e-9)


def test_few_steps_find_the_ends_of_a_large_spectrum():
    values = np.concatenate([[30.0, -20.0], np.random.default_rng(1).normal(size=298) * 0.5])
    matrix = symmetric(values)
    found, vectors = lanczos(lambda v: matrix @ v, 300, 25)
    assert found[:2] == pytest.approx([30, -20], rel=1e-6)
    assert matrix @ vectors[:, 0] == pytest.approx(30 * vectors[:, 0], abs=1e-5)
    assert abs(vectors[:, -1] @ matrix @ vectors[:, -1]) < 0.1


class Quadratic(nn.Module):
    """Class 1 has probability 1/2 + x' H x / 2 exactly."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = torch.from_numpy(matrix)

    def forward(self, x):
        p = 0.5 + (x @ self.matrix * x).sum(1) / 2
        return torch.stack([1 - p, p], 1)


def test_bend_is_the_hessian():
    matrix = symmetric(np.array([0.5, -0.3, 0.1, 0.01]))
    eps = 0.1 * torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    probability = SmoothProbability(Quadratic(matrix), 1, eps, outputs="probabilities")
    v = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    assert probability.bend(torch.zeros(4, dtype=torch.float64), v, 0.1).numpy() == pytest.approx(matrix[0], abs=1e-6)


class Kinked(nn.Module):
    """|x_0|, of which automatic second derivatives see nothing."""

    def forward(self, x):
        p = x[:, 0].abs()
        return torch.stack([1 - p, p], 1)


def test_kinks_bend():
    eps = torch.zeros(4001, 2)
    eps[:, 0] = torch.linspace(-1, 1, 4001)  # E|x + u| = (1 + x^2) / 2: the Hessian is 1
    probability = SmoothProbability(Kinked(), 1, eps, outputs="probabilities")
    bend = probability.bend(torch.zeros(2), torch.tensor([1.0, 0.0]), 0.2)
    assert bend.numpy() == pytest.approx([1.0, 0.0], abs=0.01)


def test_directions_of_a_network():
    matrix = symmetric(np.array([0.5, -0.3, 0.1, 0.01]))
    probability = SmoothProbability(Quadratic(matrix.astype(np.float32)), 1, torch.zeros(1, 4), "probabilities")
    vectors = bent_directions(probability, torch.zeros(4), 0.1)
    _, exact = np.linalg.eigh(matrix)
    assert abs(vectors[:, 0] @ exact[:, 3]) == pytest.approx(1, abs=1e-3)  # 0.5
    assert abs(vectors[:, -1] @ exact[:, 1]) == pytest.approx(1, abs=1e-3)  # 0.01


def test_points_go_through_in_parts():
    probability = SmoothProbability(
        Quadratic(np.eye(4, dtype=np.float32)), 1, torch.zeros(3, 4), "probabilities", rows=7
    )
    x = torch.randn(11, 4)
    assert probability.values(x).numpy() == pytest.approx((0.5 + x.square().sum(1) / 2).numpy(), abs=1e-6)


@pytest.mark.parametrize("norm", [1, 2])
def test_outlines_lie_on_the_boundary(norm):
    rng = np.random.default_rng(0)
    axes, plane = rng.uniform(0.5, 2, 9), np.linalg.qr(rng.normal(size=(9, 2)))[0]
    line = outline(axes, plane, norm)
    gauges = np.linalg.norm((line @ plane.T) / axes, norm, axis=1)
    assert gauges == pytest.approx(np.ones(len(line)))
