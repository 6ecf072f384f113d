"""Attention with its products packed: the same function, and only where it is the same."""

import pytest
import torch
from torch import Tensor, fx, nn

from anisocert.engine.rewriting._attention import SelfAttention, pack_attention
from anisocert.engine.rewriting.graph import Shapes

X = torch.randn(3, 7, 12, generator=torch.Generator().manual_seed(0))


class Attending(nn.Module):
    def __init__(self, given: dict[str, object], called: dict[str, object], other: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.attention = nn.MultiheadAttention(12, 3, **{"batch_first": True} | given)
        for weights in self.attention.parameters():
            nn.init.normal_(weights, std=0.3)
        self.called, self.other = {"need_weights": False} | called, other

    def forward(self, x: Tensor) -> Tensor:
        keys = x.flip(1) if self.other else x
        found, _ = self.attention(x, keys, keys, **self.called)
        return found


def packed(model: nn.Module, x: Tensor = X) -> fx.GraphModule:
    network = fx.symbolic_trace(model.eval().requires_grad_(False))
    Shapes(network).run(x)
    pack_attention(network)
    network.recompile()
    return network


@pytest.mark.parametrize("given", [{}, {"bias": False}, {"dropout": 0.5}])
def test_attention_of_a_sequence_to_itself_is_packed(given):
    model = Attending(given, {})
    found = packed(model)
    assert isinstance(found.attention, SelfAttention)
    assert torch.allclose(found(X), model(X), atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        Attending({}, {"need_weights": True}),
        Attending({}, {"attn_mask": torch.ones(7, 7).triu(1).bool()}),
        Attending({}, {"key_padding_mask": torch.zeros(3, 7).bool()}),
        Attending({}, {}, other=True),
        Attending({"batch_first": False}, {}),
        Attending({"add_bias_kv": True}, {}),
        Attending({"add_zero_attn": True}, {}),
    ],
    ids=["weights", "mask", "padding", "other keys", "sequence first", "bias of keys", "zeros"],
)
def test_what_else_attention_can_do_stays(model):
    found = packed(model)
    assert type(found.attention) is nn.MultiheadAttention
    assert torch.allclose(found(X), model(X), atol=1e-5)


class Positional(Attending):
    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.arange(7).expand(3, 7) > 4
        found, _ = self.attention(x, x, x, hidden, need_weights=False)
        return found


class OneSequence(Attending):
    """Without a batch."""

    def forward(self, x: Tensor) -> Tensor:
        one = x[0]
        found, _ = self.attention(one, one, one, need_weights=False)
        return found


class OtherValues(Attending):
    def forward(self, x: Tensor) -> Tensor:
        found, _ = self.attention(x, x, x.flip(1), need_weights=False)
        return found


class UsesParts(Attending):
    def forward(self, x: Tensor) -> Tensor:
        found, _ = self.attention(x, x, x, need_weights=False)
        return self.attention.out_proj(found) * self.attention.in_proj_weight.sum()


class Twice(Attending):
    def forward(self, x: Tensor) -> Tensor:
        first, _ = self.attention(x, x, x, need_weights=False)
        second, _ = self.attention(x, first, first, need_weights=False)
        return first + second


@pytest.mark.parametrize("kind", [Positional, OneSequence, Twice, OtherValues, UsesParts])
def test_other_ways_to_call_it_stay(kind):
    model = kind({}, {})
    found = packed(model)
    assert type(found.attention) is nn.MultiheadAttention
    assert torch.allclose(found(X), model(X), atol=1e-5)


class Named(Attending):
    def forward(self, x: Tensor) -> Tensor:
        found, _ = self.attention(query=x, key=x, value=x, need_weights=False)
        return found


def test_it_may_be_called_with_names():
    model = Named({}, {})
    found = packed(model)
    assert isinstance(found.attention, SelfAttention)
    assert torch.allclose(found(X), model(X), atol=1e-5)


class Adapted(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x


def test_the_last_layer_is_its_weights():
    """As attention reads them, without calling the layer."""
    model = Attending({}, {})
    model.attention.out_proj = Adapted(12, 12)
    assert torch.allclose(packed(model)(X), model(X), atol=1e-5)


def test_hooks_stay():
    model = Attending({}, {})
    model.attention.register_forward_hook(lambda module, args, out: (2 * out[0], None))
    assert type(packed(model).attention) is nn.MultiheadAttention
    model = Attending({}, {})
    model.attention.out_proj.register_forward_hook(lambda module, args, out: 2 * out)  # which attention does not call
    assert torch.allclose(packed(model)(X), model(X), atol=1e-5)
