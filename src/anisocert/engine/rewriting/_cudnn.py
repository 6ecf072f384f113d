"""Convolutions with a ReLU, and the sum with a shortcut before it, in one call of cuDNN, in bfloat16."""

import torch
from torch import Tensor, nn

from anisocert.engine.rewriting._layers import bias_of


class ReluConv2d(nn.Module):
    """relu(convolution) or relu(convolution + shortcut)."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        assert not isinstance(conv.padding, str)
        self.where = (conv.stride, conv.padding, conv.dilation, conv.groups)
        weight = conv.weight.detach().to(torch.bfloat16, memory_format=torch.channels_last)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(bias_of(conv).to(torch.bfloat16), requires_grad=False)

    def forward(self, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
        """For bfloat16 channels-last maps."""
        x = x.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
        if shortcut is None:
            return torch.cudnn_convolution_relu(x, self.weight, self.bias, *self.where)
        shortcut = shortcut.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
        return torch.cudnn_convolution_add_relu(x, self.weight, shortcut, 1.0, self.bias, *self.where)
