import pytest
import torch

from anisocert.optimize._steps import Adam, Plain


@pytest.mark.parametrize(("ours", "theirs"), [(Adam, torch.optim.Adam), (Plain, torch.optim.SGD)])
def test_steps_are_those_of_torch_bit_by_bit(ours, theirs):
    torch.manual_seed(0)
    value, parameter = (torch.linspace(-1, 2, 50).clone() for _ in range(2))
    step, optimizer = ours(value, 0.03), theirs([parameter.requires_grad_(True)], 0.03, maximize=True)
    for i in range(30):
        slope = torch.randn(50) * 10.0 ** (i % 7 - 3)
        slope[::5] = 0.0
        step(slope)
        parameter.grad = slope.clone()
        optimizer.step()
        assert torch.equal(value, parameter.detach())
