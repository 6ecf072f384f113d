"""A small convolutional denoiser that is told theta, for networks that never saw noise.

FFDNet's idea (Zhang et al. 2018): the level of the noise is an input, here one of each value of the image, and all
convolutions see the image at half of its size. Around them is what is known without any learning: the best linear guess
of a value y = x + s eps, where values have mean m and standard deviation d, is m + d^2 / (d^2 + s^2) (y - m), and it
errs by d s / sqrt(d^2 + s^2) (Karras et al. 2022, per value). The network sees values and levels in these units and
learns the rest of the error. So a value under no noise passes unchanged, and one under very much is not believed.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anisocert.errors import ArgumentError, ModelError
from anisocert.models.normalize import per_channel

Told = Literal["theta", "scalar"]
TOLD: tuple[str, ...] = get_args(Told)
SIZES = {"denoiser": (96, 10), "denoiser-small": (32, 5)}
"""Width and number of 3x3 convolutions, by the name of the architecture: 0.7 M and 0.03 M weights for colour images."""
SPREADS = {"gaussian": 1.0, "uniform": 1 / math.sqrt(3)}
"""Standard deviation of noise whose theta is 1."""
NEEDED = ("architecture", "shape", "mean", "std", "told", "noise", "levels")
KIND = "denoiser"


class Denoiser(nn.Module):
    """Noisy images beside their theta, `b x 2 x c x h x w`, to images, `b x c x h x w`; h and w are even.

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
        (width, depth), channels = SIZES[architecture], len(centers)
        layers: list[nn.Module] = [nn.Conv2d(8 * channels, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        last = nn.Conv2d(width, 4 * channels, 3, padding=1)
        for parameter in last.parameters():
            nn.init.zeros_(parameter)  # the linear guess, to begin with
        self.layers = nn.Sequential(*layers, last)
        self.register_buffer("mean", torch.tensor(centers).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(spreads).view(-1, 1, 1))

    def forward(self, pair: Tensor) -> Tensor:
        """The images without their noise, as far as it can tell."""
        noisy, level = pair[:, 0] - self.mean, self._level(pair[:, 1])
        unit = (level.square() + self.std.square()).rsqrt()
        seen = F.pixel_unshuffle(torch.cat([noisy * unit, level * unit], 1), 2)
        learned = F.pixel_shuffle(self.layers(seen), 2)
        believed = (self.std * unit).square()
        found: Tensor = self.mean + believed * noisy + self.std * level * unit * learned
        return found

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


def suited_denoiser(shape: Sequence[int]) -> str:
    """The architecture for images of this shape, if none is named."""
    return "denoiser-small" if len(shape) == 3 and shape[0] == 1 and max(shape[1:]) <= 28 else "denoiser"


def _check(architecture: Any, shape: Any, channels: int, told: Any, noise: Any, levels: Any) -> None:
    """An error unless a denoiser can be made of this, which may come from anyone's file."""
    words = (("architecture", architecture, tuple(SIZES)), ("told", told, TOLD), ("noise", noise, tuple(SPREADS)))
    for name, value, allowed in words:
        if not isinstance(value, str) or value not in allowed:
            raise ArgumentError(f"expected {name} of a denoiser among {', '.join(allowed)}, got {str(value)[:100]!r}")
    whole = _numbers(shape, 3, int)
    if not whole or shape[0] != channels or min(shape) < 1 or shape[1] % 2 or shape[2] % 2:
        raise ArgumentError(
            f"expected images of shape ({channels}, height, width), both even, for a denoiser, got {str(shape)[:100]}"
        )
    if not _numbers(levels, 2, int | float) or not 0 < levels[0] <= levels[1] <= sys.float_info.max:
        raise ArgumentError(f"expected levels, two positive numbers in order, got {str(levels)[:100]}")


def _numbers(values: Any, count: int, kind: Any) -> bool:
    if not isinstance(values, list | tuple) or len(values) != count:
        return False
    return all(isinstance(one, kind) and not isinstance(one, bool) for one in values)


def expect_denoiser(metadata: dict[str, Any], path: Path) -> None:
    """An error unless a file's metadata is that of a denoiser."""
    missing = [name for name in NEEDED if name not in metadata]
    if metadata.get("kind") != KIND or missing:
        got = f"one without {', '.join(missing)}" if metadata.get("kind") == KIND else "another file"
        raise ModelError(f"expected a denoiser of `anisocert train --recipe denoiser` in {path}, got {got}")
