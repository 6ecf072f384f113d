"""What a network says itself about its gradients is not lost in a graph of it."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint

from anisocert import Numerics
from anisocert.engine import Network
from anisocert.engine._backward import has_own_backward


class Reversed(torch.autograd.Function):
    """Twice what it is given, with gradients the other way."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, slope):
        return -slope


@torch.no_grad()
def decorated(x: Tensor) -> Tensor:
    return x.round()


class Odd(nn.Module):
    """Something that happens to the input, and a network."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.body = how, nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "no_grad":
                with torch.no_grad():
                    rest = x.round() - x
                x = x + rest
            case "inference_mode":
                with torch.inference_mode():
                    rest = x.round() - x
                x = x + rest
            case "set_grad_enabled":
                torch.set_grad_enabled(False)
                rest = x.round() - x
                torch.set_grad_enabled(True)
                x = x + rest
            case "decorated":
                x = 0.5 * x + decorated(x)
            case "function":
                x = Reversed.apply(x)
            case "detached":
                x = x + (x.round() - x).detach()
            case "constants":
                with torch.no_grad():
                    rest = torch.arange(6) * 0.1
                x = x + rest
            case "torch's own":  # which clamps norms without gradients
                x = x * F.cosine_similarity(x, x.flip(1), dim=1)[:, None]
            case "under autocast":
                x = Reversed.apply(x) if torch.is_autocast_enabled("cpu") else x
            case "computed again":
                x = checkpoint(torch.tanh, x, use_reentrant=False)
        return self.body(x)


OWN = ["no_grad", "inference_mode", "set_grad_enabled", "decorated", "function"]


def _slopes(how: str) -> tuple[Network, Tensor, Tensor]:
    model = Odd(how).eval()
    network = Network(model, 3, "cpu", Numerics("float32", False, 32))
    leaf = torch.rand(32, 6, generator=torch.Generator().manual_seed(0)).mul(4).requires_grad_(True)
    own, found = (
        torch.autograd.grad(call(leaf)[:, 0].sum(), [leaf])[0] for call in (model, network.differentiable_scores)
    )
    return network, own, found


@pytest.mark.parametrize("how", OWN)
def test_gradients_are_those_that_the_network_says(how):
    network, own, found = _slopes(how)
    torch.testing.assert_close(found, own)
    assert not isinstance(network._gradients._plain[1], fx.GraphModule)
    network.fit((6,), 0)
    assert isinstance(network._run, fx.GraphModule), "votes need none of it"


@pytest.mark.parametrize("how", ["detached", "constants", "torch's own", "nothing"])
def test_what_a_graph_has_stays_in_it(how):
    network, own, found = _slopes(how)
    torch.testing.assert_close(found, own)
    assert isinstance(network._gradients._plain[1], fx.GraphModule)


def test_what_is_computed_again_has_no_gradients_of_its_own():
    assert not has_own_backward(Odd("computed again").eval(), torch.rand(2, 6), "float32")


def test_what_cannot_be_seen_is_left_as_it_is():
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError

    assert has_own_backward(Broken(), torch.rand(2, 6), "float32")


@pytest.mark.parametrize(("precision", "own"), [("float32", False), ("bfloat16", True)])
def test_it_is_looked_at_in_the_precision_in_which_it_is_computed(precision, own):
    assert has_own_backward(Odd("under autocast").eval(), torch.rand(2, 6), precision) == own
