"""Proposed certificates and random scenes of them."""

import numpy as np
import pytest

from anisocert.bounds import Plan
from anisocert.certificate import Certificate
from anisocert.geometry import Region
from anisocert.smoothing import Gaussian, Uniform

P_A, P_B = Plan().estimate(950, 50, 1000, 3, 0.001)
GAP = {1: float(Uniform(1.0).gap(P_A, P_B)), 2: float(Gaussian(1.0).gap(P_A, P_B))}


def proposal(id_, prediction, center, axes=None, norm=2, model_hash="model"):
    """A certificate as certify gives it, from 950 of 1000 votes; without axes: an abstention."""
    x = np.asarray(center, np.float32)
    theta = np.float32(0.25) if axes is None else _theta(np.asarray(axes, float) / GAP[norm], x.shape, id_ % 2)
    return Certificate(
        id=id_, prediction=-1 if axes is None else prediction, gap=0.0 if axes is None else GAP[norm],
        region=None if axes is None else Region(x, axes, norm), theta=theta, p_a=P_A, p_b=P_B, top_votes=950,
        runner_up_votes=50, votes=1000, bound_k=950, bound_n=1000, alpha=0.001, num_classes=3, bound="one-vs-rest",
        stop=None, method="anisotropic", norm=norm, seed=2**63 + id_, model_hash=model_hash, seconds=0.25, x=x,
        noise="gaussian" if norm == 2 else "uniform",
    )  # fmt: skip


def _theta(needed, shape, may_be_one):
    """The noise that gives such a region, a hair larger; one number for some balls."""
    theta = np.nextafter(np.nextafter(needed.astype(np.float32), np.float32(np.inf)), np.float32(np.inf))
    return theta.max() if may_be_one and needed.min() == needed.max() else np.broadcast_to(theta, shape).copy()


def scene(rng, d, norm, count, crowd=0.6):
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
        proposals.append(proposal(i, int(rng.integers(3)), center, None if rng.random() < 0.15 else axes, norm))
    return proposals


@pytest.fixture(name="proposal", scope="session")
def _proposal():
    return proposal


@pytest.fixture(name="scene", scope="session")
def _scene():
    return scene


@pytest.fixture(params=["sqlite", "lists", "postgresql"])
def place(request, tmp_path, list_store):
    """Where a memory can be opened twice."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return tmp_path / "memory.sqlite" if request.param == "sqlite" else "lists://memory"


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
