import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from anisocert.engine.rewriting._layers import BlockConv2d, ColumnsConv2d, slow_groups, ungrouped

KERNELS = [(7, 2, 3, 32), (3, 2, 1, 8), (5, 2, 2, 12), (4, 2, 1, 8), (2, 2, 0, 8), (11, 4, 5, 16), (3, 4, 1, 8)]


@pytest.mark.parametrize(("kernel", "stride", "padding", "size"), KERNELS)
@pytest.mark.parametrize("pool", [False, True])
def test_block_convolution(kernel, stride, padding, size, pool):
    conv, x = nn.Conv2d(3, 6, kernel, stride, padding), torch.randn(4, 3, size, size + 2 * stride)
    assert BlockConv2d.fits(conv, size, size + 2 * stride)
    blocks = BlockConv2d(conv, pool)
    with torch.no_grad():
        expected = conv.double()(x.double())
        if pool:
            expected = F.max_pool2d(F.relu(expected), 3, 2, 1)
        assert blocks(x).shape == expected.shape
        assert (blocks(x) - expected).abs().max() < 1e-5


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
def test_compiled_gradients_of_a_pooled_block_convolution():
    """Compiled kernels keep what eager ones round: the maximum of a window may equal none of its values there."""
    torch.manual_seed(0)
    blocks = BlockConv2d(nn.Conv2d(3, 8, 7, 2, 3, dtype=torch.bfloat16), pool=True)
    x = torch.rand(2, 3, 16, 16, dtype=torch.bfloat16)

    def slope(run):
        given = x.clone().requires_grad_(True)
        run(given).float().square().sum().backward()
        return given.grad.float()

    expected = slope(blocks)
    assert (slope(torch.compile(blocks, dynamic=False)) - expected).norm() <= 0.05 * expected.norm() > 0


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(8, 4, 3, 2, 1),
        nn.Conv2d(3, 4, 3, 1, 1),
        nn.Conv2d(3, 4, 3, 2, 0),
        nn.Conv2d(3, 4, (3, 5), 2, 1),
        nn.Conv2d(3, 4, 3, 2, 1, dilation=2),
        nn.Conv2d(3, 3, 3, 2, 1, groups=3),
        nn.Conv2d(3, 4, 3, 2, 1, padding_mode="reflect"),
        nn.Conv2d(3, 4, 3, 2, (1, 0)),
    ],
)
def test_convolutions_that_blocks_do_not_fit(conv):
    assert not BlockConv2d.fits(conv, 16, 16)
    assert not BlockConv2d.fits(nn.Conv2d(3, 4, 3, 2, 1), 18, 16)


COLUMNS = {  # options of a convolution, size of its maps, columns
    "16 channels": ((16, 16, 3, 1, 1), (6, 8), 4),
    "32 channels": ((32, 32, 3, 1, 1), (4, 8), 2),
    "16 to 32": ((16, 32, 3, 1, 1), (5, 8), 2),
    "a width that four does not divide": ((16, 16, 3, 1, 1), (4, 6), 2),
    "a stem": ((3, 20, 3, 1, 1), (5, 16), 8),
    "a stem of one channel and a wide kernel": ((1, 6, (3, 7), 1, (1, 3)), (4, 16), 8),
    "without bias": ((12, 10, 5, 1, 2, 1, 1, False), (7, 12), 4),
}


@pytest.mark.parametrize(("options", "size", "columns"), COLUMNS.values(), ids=COLUMNS)
def test_columns_as_channels(options, size, columns):
    torch.manual_seed(0)
    conv = nn.Conv2d(*options).requires_grad_(False)
    x = torch.randn(3, conv.in_channels, *size).contiguous(memory_format=torch.channels_last)
    assert ColumnsConv2d.columns_for(conv, size[1]) == columns
    merged = ColumnsConv2d(conv, columns)
    got, expected = merged(x), conv.double()(x.double())
    assert got.shape == expected.shape
    assert got.is_contiguous(memory_format=torch.channels_last)
    assert (got - expected).abs().max() < 1e-5


def test_columns_of_a_convolution_with_a_shortcut():
    class Sum(nn.Module):
        def __init__(self, conv):
            super().__init__()
            self.conv = conv

        def forward(self, x, shortcut):
            return self.conv(x) + 3 * shortcut

    conv, x, shortcut = (
        nn.Conv2d(16, 16, 3, 1, 1).requires_grad_(False),
        torch.randn(2, 16, 4, 8),
        torch.randn(2, 16, 4, 8),
    )
    merged = ColumnsConv2d(conv, 4)
    merged.wide = Sum(merged.wide)
    assert torch.allclose(merged(x, shortcut), conv(x) + 3 * shortcut, atol=1e-5)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(64, 64, 3, 1, 1),
        nn.Conv2d(16, 16, 3, 2, 1),
        nn.Conv2d(16, 16, 3, 1, 0),
        nn.Conv2d(16, 16, 1),
        nn.Conv2d(16, 16, 4, 1, 2),
        nn.Conv2d(16, 16, (3, 1), 1, (1, 0)),
        nn.Conv2d(16, 16, 3, 1, 2, dilation=2),
        nn.Conv2d(16, 16, 3, 1, 1, groups=2),
        nn.Conv2d(16, 16, 3, 1, 1, padding_mode="circular"),
        nn.Conv2d(16, 16, 11, 1, 5),
        nn.Conv2d(16, 16, 3, padding="same"),
    ],
)
def test_convolutions_whose_columns_are_left_alone(conv):
    assert ColumnsConv2d.columns_for(conv, 32) == 1
    assert ColumnsConv2d.columns_for(nn.Conv2d(16, 16, 3, 1, 1), 31) == 1


@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_of_groups_as_one_of_all_channels(bias):
    conv, x = nn.Conv2d(18, 12, 3, 2, 1, groups=3, bias=bias).requires_grad_(False), torch.randn(2, 18, 9, 9)
    dense = ungrouped(conv)
    assert dense.groups == 1
    assert torch.allclose(dense(x), conv(x), atol=1e-5)
    assert conv.groups == 3


def test_which_groups_are_slow():
    assert slow_groups(nn.Conv2d(48, 48, 3, groups=2))
    for fast in (nn.Conv2d(48, 48, 3), nn.Conv2d(48, 48, 3, groups=48), nn.Conv2d(64, 64, 3, groups=8)):
        assert not slow_groups(fast)
    assert not slow_groups(nn.Conv2d(2400, 2400, 3, groups=100))
