"""Small differentiable networks with known answers."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import anisocert as ac
from anisocert import Numerics
from anisocert.engine import Network


class HalfSpace(nn.Module):
    """Two classes, split by the hyperplane weight . x = offset; sharp logits, so that votes are softmax."""

    def __init__(self, weight: Tensor, offset: float = 0.0, sharpness: float = 30.0) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.offset, self.sharpness = offset, sharpness

    def forward(self, x: Tensor) -> Tensor:
        margin = self.sharpness * (x.flatten(1) @ self.weight.flatten() - self.offset)
        return torch.stack([margin, -margin], 1)


@pytest.fixture
def few_coordinates() -> HalfSpace:
    """A boundary that depends on the first two of 16 coordinates alone."""
    weight = torch.zeros(16)
    weight[:2] = torch.tensor([3.0, 4.0]) / 5
    return HalfSpace(weight).eval()


@pytest.fixture(scope="session")
def half_space() -> tuple[Network, Tensor, Tensor]:
    """A half-space in 20 dimensions, of which ten carry no weight; its weight; and inputs at a distance of 0.4."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.cat([torch.randn(10, generator=generator), torch.zeros(10)])
    weight /= weight.norm()
    x = torch.randn(12, 20, generator=generator) / 2
    network = Network(HalfSpace(weight).eval(), 2, numerics=Numerics("float32", compile=False))
    return network, weight, x - (x @ weight - 0.4).unsqueeze(1) * weight


class Slab(nn.Module):
    """Class 0 between two hyperplanes: too much noise falls out on either side, so one scale is the best."""

    def __init__(self, weight: Tensor, half_width: float) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.half_width = half_width

    def forward(self, x: Tensor) -> Tensor:
        margin = 30.0 * (self.half_width - (x.flatten(1) @ self.weight.flatten()).abs())
        return torch.stack([margin, -margin], 1)


@pytest.fixture
def slab() -> Slab:
    """A slab of half-width 0.5 around 0, across the first two of 16 coordinates."""
    weight = torch.zeros(16)
    weight[:2] = torch.tensor([3.0, 4.0]) / 5
    return Slab(weight, 0.5).eval()


@pytest.fixture
def smooth() -> nn.Module:
    """A smooth random three-class network on 2 x 3 inputs."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).eval()


@pytest.fixture
def points_of():
    """Points of a region, most of them next to its border, in random directions and along the axes."""

    def points(region, rng, count=2000):
        d = region.dim
        u = np.concatenate([rng.normal(size=(count, d)), np.eye(d), -np.eye(d)])
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        u *= np.where(rng.random(len(u)) < 0.7, 1 - 1e-9, rng.random(len(u)))[:, None]
        return region.center + u * region.axes

    return points


@pytest.fixture
def at_zero():
    """The certificate of the plane's origin."""

    def certified(model, method, n, smoothing=None, num_classes=2, numerics=None, **plan):
        (one,) = ac.certify(
            model, np.zeros((1, 2), np.float32), num_classes=num_classes, method=method, numerics=numerics,
            smoothing=smoothing or ac.Gaussian(model.sigma), plan=ac.Plan(n=n, **plan),
        )  # fmt: skip
        return one

    return certified


@pytest.fixture
def as_alone():
    """Certificates of a batch, checked to be those that its inputs have alone."""

    def certified(model, x, smoothing, method):
        ask = {"num_classes": 3, "smoothing": smoothing, "method": method, "plan": ac.Plan(n=300, alpha=0.05)}
        together = ac.certify(model, x, **ask)
        alone = [ac.certify(model, x[i : i + 1], ids=[i], **ask)[0] for i in range(len(x))]
        for name in ("prediction", "codes", "selector_top", "top_votes", "gap", "cap", "radius", "alpha"):
            assert [getattr(one, name) for one in together] == [getattr(one, name) for one in alone]
        return together

    return certified


@pytest.fixture
def problem(bands):
    """A random classifier, or one per code, selector, codebook and inputs."""

    def make(seed, dim=3, codes=3, own=False):
        rng = np.random.default_rng(seed)
        book = ac.Codebook(rng.uniform(0.1, 1.5, (codes, dim)) if seed % 2 else rng.uniform(0.1, 1.5, codes), 0.5)
        networks = [bands.random(rng, dim, 3, 0.8) for _ in range(codes if own else 1)]
        model = ac.Coded(networks if own else networks[0], bands.random(rng, dim, codes, 1.0), book)
        return model.eval(), rng.normal(size=(6, dim)).astype(np.float32), rng

    return make


@pytest.fixture
def planes(bands):
    """Half-spaces across the first and second of two coordinates, at these distances from 0."""

    def make(far_selector, far_class, codes=(0.25, 1.0), sigma=0.5):
        classifier = bands([1.0, 0.0], [-far_class], [1, 0], 2)
        return ac.Coded(classifier, bands([0.0, 1.0], [-far_selector], [1, 0], 2), ac.Codebook(codes, sigma)).eval()

    return make
