"""Inputs and thetas as small pictures inside the page."""

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import from_extra
from anisocert.report._inputs import Inputs

LARGEST, LOSSLESS = 160, 64  # pixels: larger pictures are reduced; those above LOSSLESS are stored as JPEG
# From dark to light in even steps of brightness, and told apart by colour-blind readers (after viridis).
RAMP = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float64)
BARS = 128

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Picture:
    """An image as a data URI or, without one, bars of these heights."""

    caption: str
    uri: str = ""
    bars: tuple[float, ...] = ()


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether inputs of this shape can be shown as a picture: `h x w`, or `c x h x w` with one or three channels."""
    return (len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3))) and min(shape[-2:]) > 1


def photo(x: Floats, low: float, high: float) -> str:
    """An image as a data URI; values from low to high become black to white."""
    grey = np.clip((x - low) / max(high - low, 1e-12), 0, 1)
    grey = grey[None] if grey.ndim == 2 else grey
    return _uri(np.moveaxis(np.broadcast_to(grey, (3, *grey.shape[1:])), 0, 2) * 255)


def heat(levels: Floats) -> str:
    """A map `h x w` of levels as a data URI, from dark (0) to light (1)."""
    places = np.linspace(0, 1, len(RAMP))
    return _uri(np.stack([np.interp(levels, places, RAMP[:, channel]) for channel in range(3)], 2))


def shades(theta: Floats, low: float, high: float) -> Floats:
    """Noise as levels from 0 (low) to 1 (high), on a logarithmic scale: a few values are many times the others."""
    if not high > low:
        return np.full(theta.shape, 0.5)
    level: Floats = np.clip(np.log(theta / low) / np.log(high / low), 0, 1)
    return level


def bars(values: Floats, low: float, high: float) -> tuple[float, ...]:
    """Heights, of 100, of a bar for each number of an input that is not an image; of too many, means of neighbours."""
    flat = values.reshape(-1)
    if flat.size > BARS:
        flat = np.array([part.mean() for part in np.array_split(flat, BARS)])
    return tuple((np.clip((flat - low) / max(high - low, 1e-12), 0, 1) * 96 + 2).tolist())


def drawn(x: Floats, inputs: Inputs, caption: str) -> Picture:
    """An input, or a changed one, in the range of values that all inputs have."""
    if is_image(x.shape):
        return Picture(caption, photo(x, *inputs.domain))
    return Picture(caption, bars=bars(x, *inputs.domain))


def pictures_of(number: int, theta: NDArray[np.float32] | None, inputs: Inputs) -> list[Picture]:
    """The input; theta, as the geometric mean of the channels and per channel; dark is little noise, on a log scale."""
    pictures = []
    x = inputs.x.get(number)
    if x is not None:
        pictures.append(drawn(x, inputs, "the input"))
    if theta is None or theta.ndim == 0:
        return pictures
    noise, low, high = theta.astype(np.float64), float(theta.min()), float(theta.max())
    reach = f"{low:.3g} everywhere" if low == high else f"{low:.3g} to {high:.3g}"
    levels = shades(noise, low, high)
    if not is_image(noise.shape):
        return [*pictures, Picture(f"noise θ, {reach}", bars=bars(levels, -0.1, 1.0))]
    if noise.ndim == 2 or len(noise) == 1 or low == high:
        return [*pictures, Picture(f"noise θ, {reach}", heat(levels.reshape(-1, *levels.shape[-2:])[0]))]
    middle = np.exp(np.log(noise).mean(0))
    pictures.append(Picture(f"noise θ, mean of channels; {reach}", heat(shades(middle, low, high))))
    return pictures + [
        Picture(f"θ, {name}", heat(channel)) for channel, name in zip(levels, ("red", "green", "blue"), strict=True)
    ]


def _uri(pixels: Floats) -> str:
    with from_extra("cli", "pictures in a report need pillow"):
        from PIL import Image
    image, side = Image.fromarray(np.rint(pixels).astype(np.uint8)), max(pixels.shape[:2])
    if side > LARGEST:
        size = (max(1, image.width * LARGEST // side), max(1, image.height * LARGEST // side))
        image = image.resize(size, Image.Resampling.BOX)
    kind, options = ("png", {"optimize": True}) if side <= LOSSLESS else ("jpeg", {"quality": 85})
    out = io.BytesIO()
    image.save(out, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"
