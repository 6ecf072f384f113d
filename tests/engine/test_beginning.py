"""Networks whose answers depend on what else they are asked: before it, or beside it."""

import pytest
import torch
from torch import nn

from anisocert.engine import Network, Numerics
from anisocert.errors import ModelError


class SettledByFirst(nn.Module):
    """Looks up the level of the noise once, as one step of a diffusion model might."""

    told_theta = True

    def __init__(self):
        super().__init__()
        self.scale = None

    def forward(self, pair):
        if self.scale is None:
            self.scale = float(1 / (1 + pair[:, 1].mean() ** 2))
        first = pair[:, 0].flatten(1)[:, 0] * self.scale
        return torch.stack([first, 0.1 + 0 * first], 1)


class KeptFromFirst(SettledByFirst):
    """The same of what the first call's values do not matter to."""

    def forward(self, pair):
        self.scale = pair[0].numel()
        return super().forward(pair)


class OneForAll(nn.Module):
    """Answers otherwise where all rows of a batch are told one theta."""

    told_theta = True

    def forward(self, pair):
        same = (pair[:, 1] == pair[:, 1].flatten()[0]).all()
        first = pair[:, 0].flatten(1)[:, 0]
        return torch.stack([first, torch.where(same, first + 1, first - 1)], 1)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_what_changed_before_memory_ran_out_is_no_network_of_its_own(side):
    weights = torch.ones(16)

    def model(x):
        return torch.stack([x.flatten(1) @ weights, 0.1 + 0 * x.flatten(1)[:, 0]], 1)

    network = Network(model, 2, model_id="mine")
    network.fit((1, 4, 4), 100)
    weights *= side
    network.shrink(RuntimeError("out of memory"))
    if side > 0:
        network.fit((1, 4, 4), 100)
    else:
        with pytest.raises(ModelError, match="expected the same scores for an input in every call"):
            network.fit((1, 4, 4), 100)


def test_a_network_that_its_first_call_settles_is_refused():
    network = Network(SettledByFirst().eval(), 2, numerics=Numerics("float32", compile=False))
    with pytest.raises(ModelError, match="got ones that depend on what the network was asked first"):
        network.fit((1, 4, 4), 100)
    probed = Network(SettledByFirst().eval(), 2, numerics=Numerics("float32", compile=False))
    probed.probe((1, 4, 4))
    assert probed.model.scale is None  # nothing that is kept of the probe reaches a vote
    Network(KeptFromFirst().eval(), 2, numerics=Numerics("float32", compile=False)).fit((1, 4, 4), 100)


def test_a_network_that_sees_whether_all_are_told_one_theta_is_refused():
    with pytest.raises(ModelError, match="expected scores of an input to depend on that input alone"):
        Network(OneForAll().eval(), 2, numerics=Numerics("float32", compile=False)).fit((1, 4, 4), 100)
