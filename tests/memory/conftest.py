"""Proposed certificates, random scenes, and slow independent answers to whether two regions have a common point."""

import numpy as np
import pytest

from anisocert.certificate import Certificate
from anisocert.geometry import Region


def proposal(id_, prediction, center, axes=None, norm=2, model_hash="model"):
    """A certificate as certify gives it; without axes: an abstention."""
    x = np.asarray(center, float)
    region = None if axes is None else Region(x, axes, norm)
    return Certificate(
        id=id_, prediction=-1 if region is None else prediction, gap=0.0 if region is None else 1.5, region=region,
        theta=np.float32(0.25 + id_ % 7) if id_ % 2 else np.full(x.shape, 0.1 + id_ % 5, np.float32),
        p_a=0.9 + 0.001 / 3, p_b=0.1, top_votes=950, runner_up_votes=50, votes=1000, bound_k=950, bound_n=1000,
        alpha=0.001, num_classes=3, bound="one-vs-rest", stop=None, method="anisotropic", norm=norm, seed=2**63 + id_,
        model_hash=model_hash, seconds=0.25, x=x,
    )  # fmt: skip


def scene(rng, d, norm, count, classes=3, crowd=0.6):
    """Proposals whose regions meet often, some abstentions, some around a point of an earlier region; float32 centres.

    crowd: semi-axes as a share of the typical distance of two centres.
    """
    distance = np.sqrt(2 * d) if norm == 2 else 2 * d / np.sqrt(np.pi)
    proposals = []
    for i in range(count):
        center = rng.standard_normal(d)
        axes = crowd * distance * np.exp(0.3 * rng.standard_normal() + 0.3 * rng.standard_normal(d))
        if proposals and rng.random() < 0.25:
            near = proposals[rng.integers(len(proposals))]
            center = near.x + 0.1 * rng.standard_normal(d) * axes / np.sqrt(d)
        if rng.random() < 0.15:
            axes = np.full(d, axes[0])
        center = center.astype(np.float32).astype(float)
        proposals.append(proposal(i, int(rng.integers(classes)), center, None if rng.random() < 0.15 else axes, norm))
    return proposals


def largest_common_gauge(a, b):
    """Smallest over all points of the larger gauge of two regions: above 1 means that they have no common point."""
    from scipy.optimize import linprog, minimize_scalar  # here: writer.py needs none of it

    ca, cb, sa, sb = (v.ravel() for v in (a.center, b.center, a.axes, b.axes))
    d = len(ca)
    if a.norm == 1:
        # Variables z, |z - c_a|, |z - c_b|, t.
        eye, zero, one = np.eye(d), np.zeros((d, d)), np.zeros((d, 1))
        rows = np.block(
            [
                [eye, -eye, zero, one],
                [-eye, -eye, zero, one],
                [eye, zero, -eye, one],
                [-eye, zero, -eye, one],
                [np.zeros((1, d)), (1 / sa)[None], np.zeros((1, d)), -np.ones((1, 1))],
                [np.zeros((1, d)), np.zeros((1, d)), (1 / sb)[None], -np.ones((1, 1))],
            ]
        )
        limits = np.concatenate([ca, -ca, cb, -cb, [0.0, 0.0]])
        cost = np.zeros(3 * d + 1)
        cost[-1] = 1.0
        bounds = [(None, None)] * d + [(0, None)] * (2 * d + 1)
        answer = linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds)
        assert answer.status == 0, answer.message
        return float(answer.fun)

    # The paper's K(t), which is convex: 1 - K scales with the square of the size of both.
    def negative(logit):
        t = 1 / (1 + np.exp(-logit))
        return -((ca - cb) ** 2 * t * (1 - t) / (t * sb**2 + (1 - t) * sa**2)).sum()

    answer = minimize_scalar(negative, bounds=(-40, 40), method="bounded", options={"xatol": 1e-12, "maxiter": 1000})
    return float(np.sqrt(-answer.fun))


@pytest.fixture(name="proposal", scope="session")
def _proposal():
    return proposal


@pytest.fixture(name="scene", scope="session")
def _scene():
    return scene


@pytest.fixture(name="largest_common_gauge", scope="session")
def _largest_common_gauge():
    return largest_common_gauge


@pytest.fixture(params=["process", "file"])
def open_memory(request, tmp_path):
    """Memory(policy), in the process or in a file."""
    from anisocert.memory import Memory

    opened = []

    def make(policy="inherit", **options):
        if request.param == "process":
            opened.append(Memory(policy, **options))
        else:
            opened.append(Memory.open(tmp_path / f"{len(opened)}.sqlite", policy, **options))
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()
