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

    def epoch(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches x: `b x *shape` float32, y: `b`, from torch's global generator; all of one size."""
        device, count = self.x.device, len(self.x)
        order = torch.randperm(count, device=device)[: self.steps * self.size].view(self.steps, self.size)
        top, left = torch.randint(0, 2 * self.crop + 1, (2, *order.shape), device=device)
        mirrored = torch.rand(order.shape, device=device) < (0.5 if self.flip else 0.0)
        for step in range(self.steps):
            index = order[step]
            x = self._cut(index, top[step], left[step], mirrored[step]) if self.image else self.x[index]
            yield (x.float() / 255 if x.dtype == torch.uint8 else x), self.y[index]

    def _cut(self, index: Tensor, top: Tensor, left: Tensor, mirrored: Tensor) -> Tensor:
        """Windows of the padded images, some mirrored. All arguments: `b`."""
        if not (self.crop or self.flip):
            return self.x[index].permute(0, 3, 1, 2)
        across = torch.arange(self.width, device=index.device)
        rows = top[:, None] + torch.arange(self.height, device=index.device)
        columns = left[:, None] + torch.where(mirrored[:, None], across.flip(0), across)
        return self.x[index[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
