"""Random thetas to train a denoiser with: levels and shapes like those that searches find, but more varied.

Everything is drawn on the images' device, in shapes that are the same for every batch.
"""

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor

from anisocert.errors import AnisocertWarning
from anisocert.models.denoiser import is_among
from anisocert.smoothing import Smoothing

FLAT = 1 / 3  # of all thetas are of one level
SMOOTH, BLOCKS = (2, 4, 8), 4  # places along each side of the fields that are drawn
OWN = 0.25  # of a field's variance is of each channel by itself
DEEP = 1.0  # largest standard deviation of the logarithm of a shaped theta
RAISED = math.log(8.0)  # blocks are raised up to this factor; a third of the places, in half of the shaped thetas


def random_theta(x: Tensor, low: float, high: float) -> Tensor:
    """One theta per image, of a level from low to high, flat or times a random shape. x: `b x c x h x w`.

    Logarithms of levels are triangular: searches start in the middle and seldom end where the levels do.
    """
    level = math.log(low) + (_uniform(x) + _uniform(x)) / 2 * math.log(high / low)
    weights = torch.rand(len(x), len(SMOOTH) + 1, 1, 1, 1, device=x.device).square()
    fields = torch.stack([*(_field(x, side, "bilinear") for side in SMOOTH), torch.randn_like(x)], 1)
    mixed = (weights * fields).sum(1) / weights.square().sum(1).sqrt()
    raised = (_field(x, BLOCKS, "nearest", own=0.0) > 0.43) & (_uniform(x) < 0.5)
    shaped = DEEP * _uniform(x) * mixed + RAISED * _uniform(x) * raised
    return (level + shaped * (_uniform(x) > FLAT)).exp()


def warn_of_levels(smoothing: Smoothing, low: float, high: float, whose: str) -> None:
    """Warn of noise that is not among the levels of a training."""
    sigma = float(smoothing.theta.mean())
    if not is_among(sigma, (low, high)):
        warnings.warn(
            f"expected levels {whose} around the noise of {sigma:g} (--sigma), got {low:g} to {high:g}: the noise that "
            "accuracy is measured under will not be learned",
            AnisocertWarning,
            stacklevel=3,
        )


def _field(x: Tensor, side: int, mode: str, own: float = OWN) -> Tensor:
    """Normal values on a grid of side x side places, made as large as x; most of them common to all channels."""
    b, c = x.shape[:2]
    common, separate = (torch.randn(b, k, side, side, device=x.device) for k in (1, c))
    grid = math.sqrt(1 - own) * common + math.sqrt(own) * separate
    corners = {"align_corners": False} if mode == "bilinear" else {}
    return F.interpolate(grid, x.shape[2:], mode=mode, **corners)


def _uniform(x: Tensor) -> Tensor:
    return torch.rand(len(x), 1, 1, 1, device=x.device)
