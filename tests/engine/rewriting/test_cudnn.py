import pytest
import torch
import torch.nn.functional as F
from torch import nn

from anisocert.engine.rewriting._cudnn import ReluConv2d


@pytest.mark.skipif(not torch.cuda.is_available(), reason="cuDNN's fused convolutions need a CUDA device")
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shortcut", [False, True])
def test_relu_convolution_on_a_gpu(stride, shortcut):
    conv = nn.Conv2d(16, 32, 3, stride, 1).cuda()
    x = torch.randn(8, 16, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        expected = conv(x)
        added = torch.randn_like(expected) if shortcut else None
        expected = F.relu(expected + added if shortcut else expected)
        got = ReluConv2d(conv)(x, added)
    assert got.dtype == torch.bfloat16
    assert (got.float() - expected).abs().max() <= 0.03 * expected.abs().max()
