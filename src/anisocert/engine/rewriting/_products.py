"""Layers that are one matrix product, with an activation at its end where one follows.

Each takes the place of an `nn.Conv2d` or `nn.Linear` in a rewritten copy of a network: the same function up to
rounding. Those of maps want channels-last inputs and give channels-last outputs.
"""

import copy
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.engine.numerics import computing
from anisocert.engine.rewriting._layers import bias_of

Activation = Literal["none", "relu", "gelu"]


class Product(nn.Module):
    """activation(rows times matrix plus bias).

    With an activation all of it is one call of cuBLAS, which saves writing and reading the product once more. Its GELU
    is the one by tanh, which differs from the exact one by 5e-4 at most: less than bfloat16's steps. But where a
    network rests on GELUs near 0 alone, its scores differ, and it does not run so.
    """

    activation: Activation = "none"
    weight: nn.Parameter
    bias: nn.Parameter

    def hold(self, weight: Tensor, bias: Tensor) -> None:
        """Take a matrix, `outputs x inputs`, and a bias."""
        self.weight, self.bias = (nn.Parameter(value, requires_grad=False) for value in (weight, bias))

    def product(self, rows: Tensor) -> Tensor:
        """rows: `n x inputs` -> `n x outputs`."""
        if self.activation == "none":
            return F.linear(rows, self.weight, self.bias)
        return torch._addmm_activation(self.bias, rows, self.weight.T, use_gelu=self.activation == "gelu")


class ActivatedLinear(Product):
    """A linear layer and the activation after it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        bias = linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias.detach()
        self.hold(linear.weight.detach(), bias)

    def forward(self, x: Tensor) -> Tensor:
        """What the layer and the activation give."""
        return self.product(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], -1)


class DenseConv2d(Product):
    """A convolution on maps of one small size as one matrix on the flattened map. x: `b x c x h x w`.

    A padded 3x3 convolution on a 2x2 map multiplies zeros more often than values; the matrix has none of them.
    """

    LARGEST = 1 << 25  # entries of the matrix, which for wide layers and large kernels would outgrow any memory

    def __init__(self, conv: nn.Conv2d, height: int, width: int) -> None:
        super().__init__()
        size = conv.in_channels * height * width
        basis = (
            torch.eye(size, dtype=torch.float32, device="cpu")
            .view(size, height, width, conv.in_channels)
            .permute(0, 3, 1, 2)
        )
        plain = copy.deepcopy(conv).cpu().float()
        plain.bias = None
        with torch.no_grad(), computing("float32", basis.device):
            images = plain(basis).permute(0, 2, 3, 1)
        self.out = tuple(images.shape[1:])
        matrix = images.reshape(size, -1).T.contiguous().to(conv.weight.device)
        self.hold(matrix, bias_of(conv).repeat(self.out[0] * self.out[1]))

    @classmethod
    def fits(cls, conv: nn.Conv2d, height: int, width: int) -> bool:
        """Whether maps of this size are no larger than the kernel, and the matrix of a reasonable size."""
        largest = conv.in_channels * max(conv.in_channels, conv.out_channels) * (height * width) ** 2
        return height * width <= conv.kernel_size[0] * conv.kernel_size[1] and largest <= cls.LARGEST

    def forward(self, x: Tensor) -> Tensor:
        """What the convolution gives."""
        flat = x.permute(0, 2, 3, 1).flatten(1)
        return self.product(flat).view(-1, *self.out).permute(0, 3, 1, 2)


class PointwiseConv2d(Product):
    """A 1x1 convolution as a matrix product over pixels: a strided one has no good kernel of its own on a GPU."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.stride = conv.stride
        self.hold(conv.weight.detach().flatten(1).contiguous(), bias_of(conv))

    def forward(self, x: Tensor) -> Tensor:
        """What the convolution gives."""
        pixels = x[:, :, :: self.stride[0], :: self.stride[1]].permute(0, 2, 3, 1)
        out = self.product(pixels.reshape(-1, pixels.shape[3]))
        return out.view(*pixels.shape[:3], -1).permute(0, 3, 1, 2)


class PatchConv2d(Product):
    """A convolution whose windows do not overlap, as a matrix product over patches."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.patch = conv.kernel_size
        self.hold(conv.weight.detach().permute(0, 2, 3, 1).flatten(1).contiguous(), bias_of(conv))

    @staticmethod
    def fits(conv: nn.Conv2d, height: int, width: int) -> bool:
        """Whether windows tile maps of this size."""
        k, plain = conv.kernel_size, conv.dilation == (1, 1) and conv.groups == 1 and conv.padding == (0, 0)
        return plain and k == conv.stride and k != (1, 1) and height % k[0] == 0 and width % k[1] == 0

    def forward(self, x: Tensor) -> Tensor:
        """What the convolution gives."""
        (tall, wide), (rows, channels, height, width) = self.patch, x.shape
        lines = x.permute(0, 2, 3, 1).reshape(rows, height // tall, tall, width // wide, wide * channels)
        out = self.product(lines.transpose(2, 3).reshape(-1, tall * wide * channels))
        return out.view(rows, height // tall, width // wide, -1).permute(0, 3, 1, 2)
