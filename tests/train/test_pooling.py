"""Max-pools with repeatable gradients are torch's own, in values and, but for the order of sums, in gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.train._pooling import RepeatablePools

WINDOWS = {
    "stem": {"kernel_size": 3, "stride": 2, "padding": 1},
    "default stride": {"kernel_size": 2},
    "uneven": {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)},
    "dilated": {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": (1, 2)},
    "beyond the edge": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    "wider than the image": {"kernel_size": 7, "stride": 1, "padding": 3},
}


def both(x: Tensor, **window: object) -> tuple[Tensor, Tensor]:
    """Pooled, and the gradient of a sum with other weights at each place."""
    x = x.clone().requires_grad_()
    pooled = F.max_pool2d(x, **window)
    pooled.backward(torch.linspace(1, 2, pooled.numel(), dtype=x.dtype, device=x.device).view_as(pooled))
    assert x.grad is not None
    return pooled.detach(), x.grad


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("size", [(6, 5), (9, 8)])
def test_as_torch_pools(name: str, size: tuple[int, int]) -> None:
    x = torch.randn(2, 3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x.to(memory_format=torch.channels_last)
    expected = both(x, **WINDOWS[name])
    with RepeatablePools():
        found = both(x, **WINDOWS[name])
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


def test_of_equal_values_the_same_one_wins() -> None:
    x = torch.randint(0, 2, (4, 2, 8, 8), generator=torch.Generator().manual_seed(1)).double()
    expected = both(x, **WINDOWS["stem"])
    with RepeatablePools():
        torch.testing.assert_close(both(x, **WINDOWS["stem"]), expected, rtol=1e-14, atol=0)


def test_low_precision_is_added_up_in_float32() -> None:
    """A pixel that wins all windows: a sum in bfloat16 stops growing at 256 times one of them."""
    x = torch.zeros(1, 1, 23, 23, dtype=torch.bfloat16)
    x[0, 0, 11, 11] = 1
    with RepeatablePools():
        x.requires_grad_()
        pooled = F.max_pool2d(x, 23, stride=1, padding=11)
        pooled.backward(torch.ones_like(pooled))
    assert x.grad is not None
    assert x.grad[0, 0, 11, 11] == torch.tensor(23.0 * 23).bfloat16()


def test_modules_too_and_only_while_entered() -> None:
    x = torch.randn(1, 1, 6, 6, requires_grad=True)
    pool = nn.MaxPool2d(3, 2, 1)
    with RepeatablePools():
        assert "_MaxPool" in type(pool(x).grad_fn).__name__
        assert pool(x[0]).shape == (1, 3, 3)
    assert "_MaxPool" not in type(pool(x).grad_fn).__name__
