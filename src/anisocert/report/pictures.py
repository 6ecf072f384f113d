"""Inputs and thetas as small pictures inside the page."""

import base64
import io

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import MissingExtraError

LARGEST, LOSSLESS = 160, 64  # pixels: larger pictures are reduced; those above LOSSLESS are stored as JPEG
# From dark to light in even steps of brightness, and told apart by colour-blind readers (after viridis).
RAMP = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float64)
BARS = 128

Floats = NDArray[np.float64]


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


def bars(values: Floats, low: float, high: float) -> str:
    """Numbers of an input that is no image, one bar each, as SVG; where there are too many, means of neighbours."""
    flat = values.reshape(-1)
    if flat.size > BARS:
        flat = np.array([part.mean() for part in np.array_split(flat, BARS)])
    height = np.clip((flat - low) / max(high - low, 1e-12), 0, 1) * 96 + 2
    width = 160 / len(flat)
    shapes = "".join(
        f'<rect x="{i * width:.2f}" y="{100 - h:.1f}" width="{max(width * 0.85, 0.5):.2f}" height="{h:.1f}"/>'
        for i, h in enumerate(height)
    )
    return f'<svg class="bars" viewBox="0 0 160 100" preserveAspectRatio="none" aria-hidden="true">{shapes}</svg>'


def _uri(pixels: Floats) -> str:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pictures in a report need pillow: pip install 'anisocert[cli]'") from error
    image, side = Image.fromarray(np.rint(pixels).astype(np.uint8)), max(pixels.shape[:2])
    if side > LARGEST:
        size = (max(1, image.width * LARGEST // side), max(1, image.height * LARGEST // side))
        image = image.resize(size, Image.Resampling.BOX)
    kind, options = ("png", {"optimize": True}) if side <= LOSSLESS else ("jpeg", {"quality": 85})
    out = io.BytesIO()
    image.save(out, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"
