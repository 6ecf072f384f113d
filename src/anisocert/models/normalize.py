"""Input normalisation as the first layer, so that noise and regions live in the input's own units."""

import warnings
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.models.coded import Coded
from anisocert.models.denoised import Denoised

LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3  # EfficientNet-Lite's
# In standard deviations. Pixels of 0 to 255 lie hundreds from the mean of a network for 0 to 1. The other way round all
# of them are within 1/50 of one; an honest image may be as flat, but then it has few levels.
FARTHEST, NARROWEST, LEVELS, FAINTEST = 8.0, 0.05, 8, 0.01
UNEQUAL, FEWEST = 30.0, 16  # times another feature's standard deviation, which fewer inputs do not tell
PIXELS = " (pixels of 0 to 255 in an .npz are taken as 0 to 1 if they are uint8)"


class Normalized(nn.Module):
    """A network behind per-channel normalisation: `network((x - mean) / std)`.

    mean, std: one value per channel; x: `b x c x ...`. architecture: the name that `build` knows it by, if any.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, network: nn.Module, mean: Sequence[float], std: Sequence[float], architecture: str | None = None
    ) -> None:
        centers, spreads = per_channel(mean, std)
        super().__init__()
        self.training = getattr(network, "training", False)  # a wrapper is in the mode of what it wraps
        self.network, self.architecture = network, architecture
        self.register_buffer("mean", torch.tensor(centers))
        self.register_buffer("std", torch.tensor(spreads))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        shape = (-1,) + (1,) * (x.dim() - 2)
        logits: Tensor = self.network((x - self.mean.view(shape)) / self.std.view(shape))
        return logits


def per_channel(mean: ArrayLike, std: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation as the network divides by them; an error unless that can be done in float32."""
    try:
        arrays = [np.asarray(mean), np.asarray(std)]
        with np.errstate(over="ignore"):
            centers, spreads = (array.astype(np.float32) for array in arrays)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"expected mean and std as numbers, got: {str(error)[:100]}") from error
    plain = all(array.dtype.kind in "iuf" and array.ndim == 1 for array in arrays)
    if not plain or len(centers) != len(spreads) or len(centers) == 0:
        raise ArgumentError(f"expected mean and std with one number per channel, got {_short(mean)} and {_short(std)}")
    if not (np.isfinite(centers).all() and np.isfinite(spreads).all() and (spreads > 0).all()):
        raise ArgumentError(f"expected mean finite and std finite and > 0, got {_short(mean)} and {_short(std)}")
    return centers, spreads


def check_units(x: NDArray[np.float32], mean: ArrayLike | None, std: ArrayLike | None) -> None:
    """An error if inputs are out of all proportion to what a network was made for: nothing sensible could result.

    x: `n x c x ...`, some inputs as the network would see them; mean, std: of the network, None if unknown.
    Inputs in the network's units are about one standard deviation from its mean.
    """
    if mean is None or std is None or (normalized := _normalized(x, *per_channel(mean, std))) is None:
        return
    distance = float(np.median(_distances(normalized)))
    channels = np.moveaxis(normalized, 1, 0) if np.size(mean) > 1 else normalized[None]
    width = max(float(np.ptp(channel)) for channel in channels)
    if distance > FARTHEST or (width < NARROWEST and len(np.unique(x)) > LEVELS):
        raise ArgumentError(
            f"expected inputs in the network's units, with mean {_short(mean)} and standard deviation {_short(std)}, "
            f"got inputs from {x.min():.6g} to {x.max():.6g}, most of them {distance:.3g} standard deviations from the "
            f"mean and all within {width:.2g}: scale them{PIXELS if x.ndim > 2 else ''}, or give the mean and std that "
            "belong to them"
        )


def expect_channels(channels: int, means: int) -> None:
    """An error for one channel where mean and std are of several: torch would repeat it for each without a word."""
    if channels == 1 < means:
        raise ArgumentError(
            f"expected inputs with {means} channels, as mean and std have, got 1: give one mean and std (--mean, "
            f"--std), or numpy.repeat(x, {means}, 1) to a network that may see grey images"
        )


def out_of_units(model: object, x: NDArray[np.float32]) -> dict[int, str]:
    """Which inputs are far from a network's units, and why; none where nobody knows these. x: `n x c x ...`."""
    if isinstance(model, Coded):
        return {i: reason for network in model.networks for i, reason in out_of_units(network, x).items()}
    if isinstance(model, Denoised):  # whose denoiser keeps the units
        return out_of_units(model.network, x)
    if not isinstance(model, Normalized):
        return {}
    mean, std = model.mean.tolist(), model.std.tolist()
    if (normalized := _normalized(x, *per_channel(mean, std))) is None:
        return {}
    return {
        i: f"expected inputs in the network's units, with mean {_short(mean)} and standard deviation {_short(std)}, "
        f"got one from {x[i].min():.6g} to {x[i].max():.6g}, {distance:.3g} standard deviations from the mean: scale it"
        for i, distance in enumerate(_distances(normalized))
        if distance > FARTHEST
    }


def _normalized(
    x: NDArray[np.float32], centers: NDArray[np.float32], spreads: NDArray[np.float32]
) -> NDArray[np.float64] | None:
    """Inputs in standard deviations from the mean; None for those of a different network, which says so itself."""
    expect_channels(x.shape[1], len(centers))
    if len(centers) not in (1, x.shape[1]):
        return None
    shape = (-1,) + (1,) * (x.ndim - 2)
    normalized: NDArray[np.float64] = (x.astype(np.float64) - centers.reshape(shape)) / spreads.reshape(shape)
    return normalized


def _distances(normalized: NDArray[np.float64]) -> NDArray[np.float64]:
    """Root mean square of the values of each input."""
    distances: NDArray[np.float64] = np.sqrt((normalized**2).reshape(len(normalized), -1).mean(1))
    return distances


def warn_of_units(sigma: float, std: Sequence[float], images: bool = True) -> None:
    """Warn if the noise is negligible compared with the data. std: of that data; images: whether it is pixels."""
    if sigma < FAINTEST * min(std):
        remedy = (
            "are these pixels of 0 to 255? As uint8 in an .npz they become 0 to 1"
            if images
            else "standardise the features, for the network too, or choose a sigma in their units"
        )
        warnings.warn(
            f"expected sigma in the units of the data, whose standard deviation is {_short(list(std))}, got {sigma:g}, "
            f"less than a hundredth of it: {remedy}",
            AnisocertWarning,
            stacklevel=2,
        )


def warn_of_scales(x: NDArray[np.float32]) -> None:
    """Warn if features differ so much in scale that no sigma serves all. x: `n x features`.

    Values of 0 to 1 have one unit, as flattened pixels do, of which those at the edges hardly vary.
    """
    spreads = x.astype(np.float64).std(0)
    spreads = spreads[spreads > 0]
    if len(x) < FEWEST or len(spreads) == 0 or (x.min() >= 0 and x.max() <= 1):
        return
    if spreads.max() > UNEQUAL * spreads.min():
        warnings.warn(
            f"features differ in scale (standard deviations {spreads.min():.3g} to {spreads.max():.3g}), and one sigma "
            "and one radius serve all: standardise them in the data, and take the scaler out of the network",
            AnisocertWarning,
            stacklevel=2,
        )


def _short(values: object) -> str:
    text = ", ".join(f"{value:.6g}" for value in values) if _numbers(values) else repr(values)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _numbers(values: object) -> TypeGuard[Sequence[float]]:
    return isinstance(values, list | tuple) and all(isinstance(value, int | float) for value in values)
