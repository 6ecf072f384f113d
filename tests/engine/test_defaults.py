"""What tensors a process makes where nobody says which is its user's choice: nothing that is certified hangs on it."""

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.attack import Search, attack
from anisocert.engine import Network
from anisocert.engine.rewriting._attention import SelfAttention
from anisocert.engine.rewriting._layers import BlockConv2d, ColumnsConv2d
from anisocert.engine.rewriting._products import ActivatedLinear, DenseConv2d, PointwiseConv2d
from anisocert.models import Codebook
from anisocert.optimize import Ascent, PublishedIsotropic

X = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(3))
ASCENT = Ascent(4, 8, 0.16, adam=True, logarithmic=True, averaged=True, centred=True)
FIXED, SHAPED = ac.Fixed(), ac.Anisotropic(ascent=ASCENT, domain=(0.0, 1.0))
ASKED = [
    (FIXED, ac.Gaussian(0.25), None),
    (FIXED, ac.GaussianMixture((0.5, 0.5), (0.2, 0.3)), 0.0),
    (PublishedIsotropic(iterations=2), ac.Uniform(0.4), 0.0),
    (SHAPED, ac.Gaussian(0.25), None),
]
CONV, STEM = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.Conv2d(3, 8, 7, 2, 3, bias=False)
POINTWISE, LINEAR = nn.Conv2d(4, 4, 1, bias=False), nn.Linear(4, 3, bias=False)
ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True).requires_grad_(False)
LAYERS = {
    "blocks": lambda: BlockConv2d(STEM),
    "columns": lambda: ColumnsConv2d(CONV, 4),
    "dense": lambda: DenseConv2d(CONV, 2, 2),
    "pointwise": lambda: PointwiseConv2d(POINTWISE),
    "linear": lambda: ActivatedLinear(LINEAR),
    "attention": lambda: SelfAttention(ATTENTION),
}


class Told(nn.Module):
    """A network that is told theta."""

    told_theta = True

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, pair):
        return self.network(pair[:, 0] / (1 + pair[:, 1]))


@pytest.fixture(params=["float64", "meta"])
def both(request):
    """both(work) -> what it gives as usual, and where a user has chosen another type or device for new tensors.

    meta stands for a GPU: what is made there by mistake has no values that could be right.
    """

    def call(work):
        usual = work()
        if request.param == "meta":
            torch.set_default_device(request.param)
        else:
            torch.set_default_dtype(getattr(torch, request.param))
        return usual, work()

    before = torch.get_default_dtype()
    yield call
    torch.set_default_dtype(before)
    torch.set_default_device(None)


def certified(model, method, smoothing, grid=None):
    asked = {"num_classes": 5, "plan": ac.Plan(n0=10, n=100), "numerics": ac.Numerics("float32", grid=grid)}
    found = ac.certify(model, X, method=method, smoothing=smoothing, **asked)
    return [(c.prediction, c.gap, np.asarray(c.theta).dtype, np.asarray(c.theta).tobytes()) for c in found]


@pytest.mark.parametrize(("method", "smoothing", "grid"), ASKED)
def test_certificates(small_network, both, method, smoothing, grid):
    usual, found = both(lambda: certified(small_network, method, smoothing, grid))
    assert found == usual


@pytest.mark.parametrize("method", [FIXED, SHAPED])
def test_a_network_that_is_told_theta(small_network, both, method):
    usual, found = both(lambda: certified(Told(small_network).eval(), method, ac.Gaussian(0.25)))
    assert found == usual


@pytest.mark.parametrize("name", LAYERS)
def test_layers_in_other_shapes(both, name):
    usual, found = both(lambda: LAYERS[name]().state_dict())
    assert all(torch.equal(found[key], usual[key]) for key in usual)
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


@pytest.mark.parametrize("smoothing", [ac.Gaussian(0.25), ac.Uniform(0.4)])
def test_attacks(small_network, both, smoothing):
    network = Network(small_network, 5, numerics=ac.Numerics("float32"))
    certificates = ac.certify(network, X, smoothing=smoothing, plan=ac.Plan(n0=10, n=200))
    how = Search(starts=2, steps=2, samples=4, votes=50)
    usual, found = both(lambda: repr(attack(network, certificates, how=how, n=100)))
    assert found == usual


def test_a_codebook_is_saved_as_it_is_read(both, tmp_path):
    book = Codebook(np.stack([np.full((1, 8, 8), level, np.float32) for level in (0.25, 0.5)]), 0.25)
    both(lambda: book.save(tmp_path / "book.safetensors"))
    assert Codebook.load(tmp_path / "book.safetensors").sigma == 0.25
