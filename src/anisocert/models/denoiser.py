"""A small convolutional denoiser that is told theta, for networks that never saw noise.

FFDNet's idea (Zhang et al. 2018): the level of the noise is an input, here one of each value of the image, and all
convolutions see the image at half of its size, some of them (it is a U-Net) at a quarter. Around them is what is known
without any learning: the best linear guess of a value y = x + s eps, where values have mean m and standard deviation d,
is m + d^2 / (d^2 + s^2) (y - m), and it errs by d s / sqrt(d^2 + s^2) (Karras et al. 2022, per value). The network sees
values and levels in these units and learns the rest of the error. So a value under no noise passes unchanged, and one
under very much is not believed.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.errors import ArgumentError, ModelError, expect_one_of
from anisocert.models.normalize import per_channel
from anisocert.models.unet import Scale, UNet

Told = Literal["theta", "scalar"]
TOLD: tuple[str, ...] = get_args(Told)
SIZES = {"denoiser": (Scale(48, 3, 2), Scale(96, 4)), "denoiser-small": (Scale(24, 1, 1), Scale(48, 1))}
"""By the name of the architecture: 0.9 M and 0.07 M weights for colour images."""
STEP = 4
"""Heights and widths are multiples of it."""
SLACK = 1e-6
"""Relative, of levels that went through float32."""
SPREADS = {"gaussian": 1.0, "uniform": 1 / math.sqrt(3)}
"""Standard deviation of noise whose theta is 1."""
NEEDED = ("architecture", "shape", "mean", "std", "told", "noise", "levels")
KIND = "denoiser"


class Denoiser(nn.Module):
    """Noisy images beside their theta, `b x 2 x c x h x w`, to images, `b x c x h x w`; h and w are multiples of 4.

    Args:
        architecture: a name of SIZES.
        shape: of the images that it is trained on; it takes others of as many channels.
        mean: of the images, one value per channel.
        std: standard deviation, one value per channel.
        told: "theta", or "scalar": only the mean of each image's theta.
        noise: that it is trained for, "gaussian" or "uniform".
        levels: of the noise that it is trained for, from and to.
    """

    told_theta = True
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        architecture: str,
        shape: Sequence[int],
        mean: Sequence[float],
        std: Sequence[float],
        told: Told = "theta",
        noise: str = "gaussian",
        levels: tuple[float, float] = (0.05, 1.0),
    ) -> None:
        super().__init__()
        centers, spreads = per_channel(mean, std)
        _check(architecture, shape, len(centers), told, noise, levels)
        self.architecture, self.shape, self.told, self.noise = architecture, tuple(shape), told, noise
        self.levels = (float(levels[0]), float(levels[1]))
        self.layers = UNet(8 * len(centers), 4 * len(centers), SIZES[architecture])
        self.register_buffer("mean", torch.tensor(centers).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(spreads).view(-1, 1, 1))

    def forward(self, pair: Tensor) -> Tensor:
        """The images without their noise, as far as it can tell."""
        noisy, level = pair[:, 0] - self.mean, self._level(pair[:, 1])
        unit = (level.square() + self.std.square()).rsqrt()
        inputs = F.pixel_unshuffle(torch.cat([noisy * unit, level * unit], 1), 2)
        learned = F.pixel_shuffle(self.layers(inputs), 2)
        believed = (self.std * unit).square()
        images: Tensor = self.mean + believed * noisy + self.std * level * unit * learned
        return images

    def error(self, pair: Tensor, found: Tensor, x: Tensor) -> Tensor:
        """Mean squared error of what was found in noisy images, in units of what the best linear guess errs by."""
        level = self._level(pair[:, 1])
        expected = self.std * level * (level.square() + self.std.square()).rsqrt()
        return ((found - x) / expected).square().mean()

    def _level(self, theta: Tensor) -> Tensor:
        """Standard deviation of the noise, as far as it is told."""
        if self.told == "scalar":
            theta = theta.mean((1, 2, 3), keepdim=True).expand_as(theta)
        return SPREADS[self.noise] * theta

    def blueprint(self) -> dict[str, Any]:
        """What a file says of it, from which it can be built again."""
        return {
            "kind": KIND, "architecture": self.architecture, "shape": list(self.shape),
            "mean": self.mean.flatten().tolist(), "std": self.std.flatten().tolist(), "told": self.told,
            "noise": self.noise, "levels": list(self.levels),
        }  # fmt: skip


def is_among(level: float, levels: Sequence[float]) -> bool:
    """Whether noise of a level is between the lowest and the highest of a training, up to what float32 rounds."""
    low, high = levels
    return low * (1 - SLACK) <= level <= high * (1 + SLACK)


def takes(channels: int, shape: Sequence[int]) -> bool:
    """Whether a denoiser of so many channels takes inputs of a shape."""
    return len(shape) == 3 and shape[0] == channels and not shape[1] % STEP and not shape[2] % STEP


def suited_denoiser(shape: Sequence[int]) -> str:
    """The architecture for images of this shape, if none is named."""
    return "denoiser-small" if len(shape) == 3 and shape[0] == 1 and max(shape[1:]) <= 28 else "denoiser"


def _check(architecture: Any, shape: Any, channels: int, told: Any, noise: Any, levels: Any) -> None:
    """An error unless a denoiser can be made of this, which may come from anyone's file."""
    words = (("architecture", architecture, tuple(SIZES)), ("told", told, TOLD), ("noise", noise, tuple(SPREADS)))
    for name, value, allowed in words:
        expect_one_of(f"{name} of a denoiser", value, allowed)
    if not _numbers(shape, 3, int) or min(shape) < 1 or not takes(channels, shape):
        raise ArgumentError(
            f"expected images of shape ({channels}, height, width), both multiples of {STEP}, for a denoiser, "
            f"got {str(shape)[:100]}"
        )
    if not _numbers(levels, 2, int | float) or not 0 < levels[0] <= levels[1] <= sys.float_info.max:
        raise ArgumentError(f"expected levels, two positive numbers in order, got {str(levels)[:100]}")


def _numbers(values: Any, count: int, kind: Any) -> bool:
    if not isinstance(values, list | tuple) or len(values) != count:
        return False
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def expect_denoiser(metadata: dict[str, Any], path: Path) -> None:
    """An error unless a file's metadata is that of a denoiser."""
    missing = [name for name in NEEDED if name not in metadata]
    if metadata.get("kind") != KIND or missing:
        got = f"one without {', '.join(missing)}" if metadata.get("kind") == KIND else "another file"
        raise ModelError(f"expected a denoiser of `anisocert train --recipe denoiser` in {path}, got {got}")
