"""Max-pooling whose gradient is the same each time.

On a GPU torch adds up the gradients of overlapping windows in whatever order its threads come. Here they are added
place by place of the window: at any one of its places, no two windows have the same input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

Pair = int | tuple[int, ...] | list[int]
Two = tuple[int, int]


class RepeatablePools(TorchFunctionMode):
    """While it is entered, torch's two-dimensional max-pools have such gradients, in whatever network."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What is called, but for these pools as it is."""
        called = _max_pool if func in (F.max_pool2d, torch.max_pool2d) else func
        return called(*args, **(kwargs or {}))


def _max_pool(
    input: Tensor,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """torch's, of `b x c x h x w`. Pools that return indices are another function of torch's and do not come here."""
    sizes = (kernel_size, stride or kernel_size, padding, dilation)
    if input.dim() != 4:  # one image, which no training has
        return torch.max_pool2d(input, *sizes, ceil_mode)
    pooled: Tensor = _MaxPool.apply(input, *map(_pair, sizes), ceil_mode)
    return pooled


def _pair(size: Pair) -> Two:
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Two, stride: Two, padding: Two, dilation: Two, ceil_mode: bool) -> Tensor:
        pooled, winners = F.max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil_mode)
        ctx.save_for_backward(winners)
        ctx.shape, ctx.window = x.shape, (kernel, stride, padding, dilation)
        return pooled

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (winners,), (kernel, stride, padding, dilation) = ctx.saved_tensors, ctx.window
        rows, columns = (
            _Side(*side) for side in zip(ctx.shape[2:], grad.shape[2:], stride, padding, dilation, kernel, strict=True)
        )
        row = winners.div(columns.size, rounding_mode="floor")
        down = row - rows.starts(grad.device)[:, None]
        right = winners - row * columns.size - columns.starts(grad.device)
        place = (down * columns.span + right).int()  # where in its window each winner is
        dtype = torch.promote_types(grad.dtype, torch.float32)
        sums = torch.zeros(*ctx.shape[:2], rows.padded, columns.padded, dtype=dtype, device=grad.device)
        sums = sums.to(memory_format=torch.channels_last)
        for i, j in product(range(0, rows.span, dilation[0]), range(0, columns.span, dilation[1])):
            won = place == i * columns.span + j
            sums[:, :, rows.at(i), columns.at(j)] += torch.where(won, grad, 0)
        return sums[:, :, rows.own, columns.own].to(grad.dtype), None, None, None, None, None


@dataclass(frozen=True)
class _Side:
    """Height or width of an image, and of the windows on it."""

    size: int
    windows: int
    stride: int
    padding: int
    dilation: int
    kernel: int

    @property
    def span(self) -> int:
        """Size of a window, with what dilation leaves out."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """With padding on both sides, and with what the last window reaches beyond it by ceil_mode."""
        return max(self.size + 2 * self.padding, (self.windows - 1) * self.stride + self.span)

    @property
    def own(self) -> slice:
        """The image itself, of the padded one."""
        return slice(self.padding, self.padding + self.size)

    def starts(self, device: torch.device) -> Tensor:
        """Where each window begins in the image; negative in the padding."""
        return torch.arange(self.windows, device=device) * self.stride - self.padding

    def at(self, offset: int) -> slice:
        """What lies so far from each window's begin, of the padded image."""
        return slice(offset, offset + (self.windows - 1) * self.stride + 1, self.stride)
