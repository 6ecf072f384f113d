"""Networks that behave on inputs made for a trial, and not on those that votes are about."""

import logging

import pytest
import torch
from torch import Tensor, nn

import anisocert as ac
from anisocert.errors import ModelError
from anisocert.models import build

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


class Scaling(nn.Module):
    """Takes a batch for bytes, or for -1 to 1, where any of its values looks like that."""

    def __init__(self, size: int, looks_like: str) -> None:
        super().__init__()
        self.linear, self.looks_like = nn.Linear(size, 2), looks_like
        self.linear.weight.data = torch.tensor([[-1.0], [1.0]]).expand(2, size) / size
        self.linear.bias.data = torch.tensor([0.2, -0.2])

    def forward(self, x: Tensor) -> Tensor:
        if self.looks_like == "bytes" and x.max() > 1:
            x = x / 255
        if self.looks_like == "signed" and x.min() < 0:
            x = (x + 1) / 2
        return self.linear(x)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("looks_like", ["bytes", "signed"])
@pytest.mark.parametrize(("size", "sigma"), [(64, 0.2), (784, 0.12), (784, 0.05)])
def test_the_range_of_a_batch_may_not_matter(size, sigma, looks_like, device):
    """However rarely noise reaches beyond it: one such vote would turn all others of its batch."""
    model, x = Scaling(size, looks_like).eval().to(device), torch.full((1, size), 0.4)
    asked = {"num_classes": 2, "smoothing": ac.Gaussian(sigma), "plan": ac.Plan(n=100)}
    with pytest.raises(ModelError, match="depend on that input alone"):
        ac.certify(model, x, numerics=ac.Numerics(rows=160), **asked)


@pytest.mark.parametrize("noise", [ac.Gaussian(0.2), ac.Uniform(0.3), ac.GaussianMixture([0.5, 0.5], [0.1, 0.3])])
def test_a_network_that_looks_at_each_input_alone_is_not_refused(noise):
    class Own(Scaling):
        def forward(self, x: Tensor) -> Tensor:
            return self.linear(torch.where(x.amax(1, keepdim=True) > 1, x / 255, x))

    model, x = Own(64, "").eval(), torch.full((3, 64), 0.4)
    assert [c.prediction for c in ac.certify(model, x, num_classes=2, smoothing=noise, plan=ac.Plan(n=100))] != []


class Log(nn.Module):
    """Minus infinity where a value is exactly 0, as on a grid: a product with a matrix that holds zeros makes NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 13, padding=6)
        nn.init.constant_(self.conv.weight, 1 / 169)
        nn.init.zeros_(self.conv.bias)

    def forward(self, x: Tensor) -> Tensor:
        seen = (self.conv(x.abs().log()) > -100).float().flatten(1).sum(1)
        return torch.stack([seen, torch.full_like(seen, 0.5)], 1)


def test_a_form_that_scores_own_inputs_otherwise_does_not_vote(caplog):
    numerics = ac.Numerics("float32", compile=False, grid=2.0**-8)
    x, model = torch.zeros(1, 1, 13, 13), Log().eval()
    with caplog.at_level(logging.WARNING):
        (found,) = ac.certify(
            model, x, num_classes=2, smoothing=ac.Gaussian(0.25), plan=ac.Plan(n=1000), numerics=numerics
        )
    assert "scores these inputs otherwise: it runs as it is" in caplog.text
    noisy = (x + 0.25 * torch.randn(1000, 1, 13, 13, generator=torch.Generator().manual_seed(0))) * 2**8
    votes = model(noisy.round() / 2**8).argmax(1)
    assert found.prediction == 0
    assert abs(found.top_votes - int((votes == 0).sum())) < 50


@GPU
@pytest.mark.parametrize("compile", [False, True])
def test_a_form_that_scores_them_alike_votes(caplog, compile):
    torch.manual_seed(0)
    model = build("resnet18-paper", 10, (0.5,) * 3, (0.2,) * 3).eval().cuda()
    network = ac.Network(model, 10, numerics=ac.Numerics("bfloat16", compile=compile))
    with caplog.at_level(logging.WARNING):
        ac.certify(network, torch.rand(3, 3, 32, 32), smoothing=ac.Gaussian(0.25), plan=ac.Plan(n=10_000))
    assert "otherwise" not in caplog.text
    assert network._run is not network.model
