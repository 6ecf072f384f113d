"""Random crops and mirroring, for a whole batch at once on the device that holds the data."""

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from anisocert.data import Dataset
from anisocert.errors import ArgumentError


class Batches:
    """A training set on a device, as bytes where it is bytes, handed out in shuffled, augmented batches.

    crop: pad by this many black pixels and cut the original size from a random place; flip: mirror half of the images.
    """

    def __init__(self, data: Dataset, batch_size: int, crop: int, flip: bool, device: torch.device) -> None:
        x = torch.from_numpy(np.ascontiguousarray(np.asarray(data.pixels))).to(device)
        self.y = torch.from_numpy(data.y).to(device)
        self.size, self.crop, self.flip = min(batch_size, len(data)), crop, flip
        self.steps = len(data) // self.size  # what does not fill a batch waits for the next epoch's shuffle
        if crop < 0 or ((crop or flip) and x.dim() != 4):
            raise ArgumentError(
                f"expected crop >= 0, and crop and flip for images alone, got {crop} and shape {data.shape}"
            )
        self.image = x.dim() == 4
        if self.image:
            # channels last in memory: gathered batches are channels-last tensors without another copy
            self.height, self.width = x.shape[2:]
            x = F.pad(x, (crop,) * 4).permute(0, 2, 3, 1).contiguous()
        self.x = x
        # steps x (index, top, left, mirrored) x b; stays where it is in memory, for graphs that read it
        self.drawn = torch.zeros(self.steps, 4, self.size, dtype=torch.int64, device=device)

    def epoch(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of a new shuffle, in order."""
        self.shuffle()
        for step in range(self.steps):
            yield self.batch(step)

    def shuffle(self) -> None:
        """Draw the next epoch from torch's global generator: order, crops and mirroring."""
        device = self.x.device
        order = torch.randperm(len(self.x), device=device)[: self.steps * self.size].view(self.steps, self.size)
        top, left = torch.randint(0, 2 * self.crop + 1, (2, *order.shape), device=device)
        mirrored = torch.rand(order.shape, device=device) < (0.5 if self.flip else 0.0)
        self.drawn.copy_(torch.stack([order, top, left, mirrored], 1))

    def batch(self, step: int | Tensor) -> tuple[Tensor, Tensor]:
        """x: `b x *shape` float32, y: `b`; all of one size. step: a number, or on the device, `1`."""
        drawn = self.drawn[step] if isinstance(step, int) else self.drawn.index_select(0, step)[0]
        index, top, left, mirrored = drawn
        x = self._cut(index, top, left, mirrored.bool()) if self.image else self.x[index]
        return floats(x), self.y[index]

    def _cut(self, index: Tensor, top: Tensor, left: Tensor, mirrored: Tensor) -> Tensor:
        """Windows of the padded images, some mirrored. All arguments: `b`."""
        if not (self.crop or self.flip):
            return self.x[index].permute(0, 3, 1, 2)
        across = torch.arange(self.width, device=index.device)
        rows = top[:, None] + torch.arange(self.height, device=index.device)
        columns = left[:, None] + torch.where(mirrored[:, None], across.flip(0), across)
        return self.x[index[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def floats(x: Tensor) -> Tensor:
    """Bytes as values from 0 to 1; others as they are."""
    return x.float() / 255 if x.dtype == torch.uint8 else x
