"""Convolutions in other shapes: the same function up to rounding, with more of the hardware at work.

Each takes the place of one `nn.Conv2d` in a rewritten copy of a network. All want channels-last inputs and give
channels-last outputs.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DenseConv2d(nn.Module):
    """A convolution on maps of one small size as one matrix on the flattened map. x: `b x c x h x w`.

    A padded 3x3 convolution on a 2x2 map multiplies zeros more often than values; the matrix has none of them.
    """

    LARGEST = 1 << 25  # entries of the matrix, which for wide layers and large kernels would outgrow any memory

    def __init__(self, conv: nn.Conv2d, height: int, width: int) -> None:
        super().__init__()
        size = conv.in_channels * height * width
        basis = torch.eye(size).view(size, height, width, conv.in_channels).permute(0, 3, 1, 2)
        plain = copy.deepcopy(conv).cpu().float()
        plain.bias = None
        with torch.no_grad():
            images = plain(basis).permute(0, 2, 3, 1)
        self.out = tuple(images.shape[1:])
        self.weight = nn.Parameter(images.reshape(size, -1).T.contiguous().to(conv.weight.device), requires_grad=False)
        self.bias = nn.Parameter(_bias(conv).repeat(self.out[0] * self.out[1]), requires_grad=False)

    @classmethod
    def fits(cls, conv: nn.Conv2d, height: int, width: int) -> bool:
        """Whether maps of this size are no larger than the kernel, and the matrix of a reasonable size."""
        largest = conv.in_channels * conv.out_channels * (height * width) ** 2
        return height * width <= conv.kernel_size[0] * conv.kernel_size[1] and largest <= cls.LARGEST

    def forward(self, x: Tensor) -> Tensor:
        """As the convolution."""
        flat = x.permute(0, 2, 3, 1).flatten(1)
        return F.linear(flat, self.weight, self.bias).view(-1, *self.out).permute(0, 3, 1, 2)


class PointwiseConv2d(nn.Module):
    """A 1x1 convolution as a matrix product over pixels: a strided one has no good kernel of its own on a GPU."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.stride = conv.stride
        self.weight = nn.Parameter(conv.weight.detach().flatten(1).contiguous(), requires_grad=False)
        self.bias = nn.Parameter(_bias(conv), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """As the convolution."""
        pixels = x[:, :, :: self.stride[0], :: self.stride[1]].permute(0, 2, 3, 1)
        out = F.linear(pixels.reshape(-1, pixels.shape[3]), self.weight, self.bias)
        return out.view(*pixels.shape[:3], -1).permute(0, 3, 1, 2)


class BlockConv2d(nn.Module):
    """A strided convolution of few channels (a stem), computed for blocks of 2 x 2 outputs at once.

    The input's blocks become channels, and one output pixel holds four pixels of the convolution: for a 7x7 stem,
    matrices of 3 x 49 by 64 become ones of 48 x 9 by 256, of which a GPU's tensor cores can use the whole width. With
    `pool`, a ReLU and a 3x3 max-pool of stride 2 follow, which read the blocks in place.
    """

    RATIO = 2

    def __init__(self, conv: nn.Conv2d, pool: bool) -> None:
        super().__init__()
        k, stride, padding = conv.kernel_size[0], conv.stride[0], conv.padding[0]
        assert isinstance(padding, int)
        self.ratio, self.block, self.pool, channels = self.RATIO, self.RATIO * stride, pool, conv.in_channels
        reach = [stride * o + t - padding for o in range(self.ratio) for t in range(k)]
        low, high = min(reach) // self.block, max(reach) // self.block
        self.pad = (-low, high, -low, high)
        weight = torch.zeros(
            self.ratio, self.ratio, conv.out_channels, channels, self.block, self.block, high - low + 1, high - low + 1
        )
        source = conv.weight.detach().cpu()
        for oy in range(self.ratio):
            for ox in range(self.ratio):
                for ty in range(k):
                    for tx in range(k):
                        qy, ry = divmod(stride * oy + ty - padding, self.block)
                        qx, rx = divmod(stride * ox + tx - padding, self.block)
                        weight[oy, ox, :, :, ry, rx, qy - low, qx - low] = source[:, :, ty, tx]
        self.weight = nn.Parameter(weight.flatten(0, 2).flatten(1, 3).to(conv.weight.device), requires_grad=False)
        self.bias = nn.Parameter(_bias(conv), requires_grad=False)

    @classmethod
    def fits(cls, conv: nn.Conv2d, height: int, width: int) -> bool:
        """Whether a convolution is of this kind, on maps of this size."""
        square = len({*conv.kernel_size}) == len({*conv.stride}) == 1 and conv.padding in [(p, p) for p in range(8)]
        block = cls.RATIO * conv.stride[0]
        plain = conv.dilation == (1, 1) and conv.groups == 1 and conv.padding_mode == "zeros"
        same = conv.padding[0] == (conv.kernel_size[0] - 1) // 2
        few = conv.in_channels < 8 and conv.stride[0] > 1
        return square and plain and same and few and height % block == 0 and width % block == 0

    def forward(self, x: Tensor) -> Tensor:
        """As the convolution, or as convolution, ReLU and max-pool."""
        flat = F.conv2d(F.pad(F.pixel_unshuffle(x, self.block), self.pad), self.weight).permute(0, 2, 3, 1)
        blocks = flat.reshape(*flat.shape[:3], self.ratio, self.ratio, -1) + self.bias  # b x h x w x 2 x 2 x c
        out = self._pooled(blocks) if self.pool else blocks.transpose(2, 3).flatten(1, 2).flatten(2, 3)
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def _pooled(blocks: Tensor) -> Tensor:
        """A window of the pool is a block, the last row of the one above, the last column of the one to the left.

        Zeros at the border and a maximum with zero are what the ReLU before the pool makes of it.
        """
        rows = blocks.amax(3)  # b x h x w x 2 x c: the maximum over a block's rows, then with the row above
        rows = torch.maximum(rows, F.pad(blocks[:, :-1, :, 1], (0, 0, 0, 0, 0, 0, 1, 0)))
        columns = torch.maximum(rows.amax(3), F.pad(rows[:, :, :-1, 1], (0, 0, 1, 0)))
        return columns.clamp(min=0)


class ReluConv2d(nn.Module):
    """relu(convolution) or relu(convolution + shortcut) in one cuDNN call, in bfloat16."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        assert not isinstance(conv.padding, str)
        self.where = (conv.stride, conv.padding, conv.dilation, conv.groups)
        weight = conv.weight.detach().to(torch.bfloat16, memory_format=torch.channels_last)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(_bias(conv).to(torch.bfloat16), requires_grad=False)

    def forward(self, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
        """For bfloat16 channels-last maps."""
        x = x.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
        if shortcut is None:
            return torch.cudnn_convolution_relu(x, self.weight, self.bias, *self.where)
        shortcut = shortcut.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
        return torch.cudnn_convolution_add_relu(x, self.weight, shortcut, 1.0, self.bias, *self.where)


def _bias(conv: nn.Conv2d) -> Tensor:
    """The bias of a convolution, or zeros."""
    if conv.bias is None:
        return torch.zeros(conv.out_channels, device=conv.weight.device)
    return conv.bias.detach().clone()
