"""Projections, steps and starts in the unit balls."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from anisocert.attack._ball import length, project, starts, steepest


@pytest.mark.parametrize("norm", [1, 2])
def test_projection_is_the_nearest_point(norm):
    rng = np.random.default_rng(norm)
    u = torch.from_numpy(rng.normal(size=(12, 5)))
    budget = torch.from_numpy(rng.uniform(0.1, 3, 12))
    found = project(u, budget, norm)
    assert bool((length(found, norm) <= budget * (1 + 1e-12)).all())
    for point, limit, mine in zip(u.numpy(), budget.numpy(), found.numpy(), strict=True):
        if np.linalg.norm(point, norm) <= limit:
            assert np.array_equal(mine, point)
            continue
        # split into positive parts, so that the l1 constraint is smooth
        best = minimize(
            lambda v, p=point: np.square(v[:5] - v[5:] - p).sum(),
            np.full(10, 0.01),
            bounds=[(0, None)] * 10,
            constraints={
                "type": "ineq",
                "fun": (lambda v, r=limit: r - v.sum())
                if norm == 1
                else (lambda v, r=limit: r**2 - np.square(v[:5] - v[5:]).sum()),
            },
            options={"maxiter": 500, "ftol": 1e-14},
        )
        assert np.square(mine - point).sum() <= best.fun * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("norm", [1, 2])
def test_steps_have_length_one_and_go_up(norm):
    slope = torch.randn(7, 40, generator=torch.Generator().manual_seed(0))
    slope[0] = 0
    step = steepest(slope, norm)
    assert torch.allclose(length(step[1:], norm), torch.ones(6))
    assert float(step[0].abs().max()) == 0
    assert bool(((step * slope).sum(1)[1:] > 0).all())
    if norm == 1:
        assert int((step[1] != 0).sum()) == 2


@pytest.mark.parametrize("norm", [1, 2])
def test_starts_are_the_centre_the_boundary_and_between(norm):
    found = starts(5, (50, 8), norm, torch.Generator().manual_seed(0))
    gauges = length(found.flatten(0, 1), norm).view(50, 5)
    assert float(gauges[:, 0].max()) == 0
    assert torch.allclose(gauges[:, 1::2], torch.ones(50, 2))
    assert float(gauges[:, 2::2].min()) > 0
    assert float(gauges[:, 2::2].max()) < 1
    # no coordinate and no sign is preferred
    assert float(found[:, 1].mean().abs()) < 0.1
    assert float((found[:, 1].abs().mean(0) / found[:, 1].abs().mean()).sub(1).abs().max()) < 0.5
