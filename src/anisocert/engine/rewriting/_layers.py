"""Convolutions in other shapes: the same function up to rounding, with more of the hardware at work.

Each takes the place of one `nn.Conv2d` in a rewritten copy of a network. All want channels-last inputs and give
channels-last outputs.
"""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BlockConv2d(nn.Module):
    """A strided convolution of few channels (a stem), computed for blocks of 2 x 2 outputs at once.

    The input's blocks become channels, and one output pixel holds four pixels of the convolution: for a 7x7 stem,
    matrices of 3 x 49 by 64 become ones of 48 x 9 by 256, of which a GPU's tensor cores can use the whole width. With
    `pool`, a ReLU and a 3x3 max-pool of stride 2 follow, which read the blocks in place.
    """

    RATIO = 2

    def __init__(self, conv: nn.Conv2d, pool: bool = False) -> None:
        super().__init__()
        k, stride, padding = conv.kernel_size[0], conv.stride[0], conv.padding[0]
        assert isinstance(padding, int)
        self.ratio, self.block, self.pool, channels = self.RATIO, self.RATIO * stride, pool, conv.in_channels
        reach = [stride * o + t - padding for o in range(self.ratio) for t in range(k)]
        low, high = min(reach) // self.block, max(reach) // self.block
        self.pad = (-low, high, -low, high)
        source = conv.weight.detach().cpu()
        weight = source.new_zeros(
            self.ratio, self.ratio, conv.out_channels, channels, self.block, self.block, high - low + 1, high - low + 1
        )
        for oy in range(self.ratio):
            for ox in range(self.ratio):
                for ty in range(k):
                    for tx in range(k):
                        qy, ry = divmod(stride * oy + ty - padding, self.block)
                        qx, rx = divmod(stride * ox + tx - padding, self.block)
                        weight[oy, ox, :, :, ry, rx, qy - low, qx - low] = source[:, :, ty, tx]
        self.weight = nn.Parameter(weight.flatten(0, 2).flatten(1, 3).to(conv.weight.device), requires_grad=False)
        self.bias = nn.Parameter(bias_of(conv), requires_grad=False)

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
        """What the convolution gives, or convolution, ReLU and max-pool together."""
        flat = F.conv2d(F.pad(F.pixel_unshuffle(x, self.block), self.pad), self.weight).permute(0, 2, 3, 1)
        blocks = flat.reshape(*flat.shape[:3], self.ratio, self.ratio, -1) + self.bias  # b x h x w x 2 x 2 x c
        out = self._pooled(blocks) if self.pool else blocks.transpose(2, 3).flatten(1, 2).flatten(2, 3)
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def _pooled(blocks: Tensor) -> Tensor:
        """A window of the pool is a block, the last row of the one above, the last column of the one to the left.

        Zeros at the border and a maximum with zero are what the ReLU before the pool makes of it. Maxima of two, never
        `amax`: its gradient divides by how many values equal the maximum, and where a compiled kernel computes those
        more finely than the maximum was stored, none does.
        """
        rows = torch.maximum(*blocks.unbind(3))  # b x h x w x 2 x c: over a block's rows, then with the row above
        rows = torch.maximum(rows, F.pad(blocks[:, :-1, :, 1], (0, 0, 0, 0, 0, 0, 1, 0)))
        columns = torch.maximum(torch.maximum(*rows.unbind(3)), F.pad(rows[:, :, :-1, 1], (0, 0, 1, 0)))
        return columns.clamp(min=0)


class ColumnsConv2d(nn.Module):
    """A convolution of few channels, computed for some neighbouring columns at once, as if these were channels.

    In channels-last memory the columns of a pixel's channels lie side by side, so that nothing is moved. There are more
    multiplications, half or more of them with zeros, and tensor cores that would else be mostly idle are at work: on an
    H200 a 3x3 convolution of 16 channels on maps of 32x32 takes 0.29 of its time, one of 32 channels 0.8, a stem of 3
    channels 0.24.
    """

    WIDTH, STEM = 64, 8  # channels to reach; columns for fewer than that many channels

    def __init__(self, conv: nn.Conv2d, columns: int) -> None:
        super().__init__()
        k, p, channels = conv.kernel_size[1], int(conv.padding[1]), conv.in_channels
        self.columns = columns
        self.padding = 2 ** math.ceil(math.log2(columns * channels)) - columns * channels if channels < self.STEM else 0
        source = conv.weight.detach().cpu()
        weight = source.new_zeros(columns, conv.out_channels, columns * channels + self.padding, conv.kernel_size[0], 3)
        for to in range(columns):
            for tap in range(k):
                block, column = divmod(to + tap - p, columns)
                weight[to, :, column * channels : (column + 1) * channels, :, block + 1] = source[:, :, :, tap]
        wide = nn.Conv2d(
            weight.shape[2], columns * conv.out_channels, (conv.kernel_size[0], 3), padding=(int(conv.padding[0]), 1),
            device=conv.weight.device, dtype=conv.weight.dtype,
        )  # fmt: skip
        wide.weight.data.copy_(weight.flatten(0, 1))
        assert wide.bias is not None
        wide.bias.data.copy_(bias_of(conv).repeat(columns))
        self.wide: nn.Module = wide.requires_grad_(False)

    @classmethod
    def columns_for(cls, conv: nn.Conv2d, width: int) -> int:
        """How many columns pay for a convolution on maps of this width: 1 if none do."""
        plain = conv.stride == conv.dilation == (1, 1) and conv.groups == 1 and conv.padding_mode == "zeros"
        (tall, k), padding = conv.kernel_size, conv.padding
        if not plain or k == 1 or k % 2 == 0 or tall % 2 == 0 or padding != (tall // 2, k // 2):
            return 1
        most = cls.STEM if conv.in_channels < cls.STEM else cls.WIDTH // max(conv.in_channels, conv.out_channels)
        return next((r for r in (8, 4, 2) if k // 2 <= r <= most and width % r == 0), 1)

    def forward(self, x: Tensor, *shortcut: Tensor) -> Tensor:
        """What the convolution gives, or what has taken its place."""
        shortcuts = [merged(maps, self.columns) for maps in shortcut]
        return parted(self.wide(merged(x, self.columns, self.padding), *shortcuts), self.columns)


def merged(maps: Tensor, columns: int, padding: int = 0) -> Tensor:
    """Columns as channels, and channels of zeros: `b x c x h x w` -> `b x (columns c + padding) x h x w / columns`."""
    rows, channels, height, width = maps.shape
    wide = maps.permute(0, 2, 3, 1).reshape(rows, height, width // columns, columns * channels)
    return (F.pad(wide, (0, padding)) if padding else wide).permute(0, 3, 1, 2)


def parted(wide: Tensor, columns: int) -> Tensor:
    """The inverse of `merged` without padding."""
    maps = wide.permute(0, 2, 3, 1)
    return maps.reshape(*maps.shape[:2], maps.shape[2] * columns, -1).permute(0, 3, 1, 2)


def ungrouped(conv: nn.Conv2d) -> nn.Conv2d:
    """A convolution of groups as one of all channels, with zeros between groups."""
    dense = copy.deepcopy(conv)
    outputs, width = conv.out_channels // conv.groups, conv.in_channels // conv.groups
    weight = conv.weight.new_zeros(conv.out_channels, conv.in_channels, *conv.kernel_size)
    for group in range(conv.groups):
        to = slice(group * outputs, (group + 1) * outputs)
        weight[to, group * width : (group + 1) * width] = conv.weight[to]
    dense.weight, dense.groups = nn.Parameter(weight, requires_grad=False), 1
    return dense


def slow_groups(conv: nn.Conv2d) -> bool:
    """Whether cuDNN has no good kernel for groups of this width, and all channels together are few enough.

    Measured on an H200: groups of 24 take 1.1 to 6 times the dense convolution's time, groups of 4 to 32 that are
    powers of two at most 1.1 times.
    """
    width = conv.in_channels // conv.groups
    return conv.groups > 1 and width > 1 and width & (width - 1) != 0 and conv.in_channels <= 1024


def bias_of(conv: nn.Conv2d) -> Tensor:
    """The bias of a convolution, or zeros."""
    if conv.bias is None:
        return conv.weight.new_zeros(conv.out_channels)
    return conv.bias.detach().clone()
