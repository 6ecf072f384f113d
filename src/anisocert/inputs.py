"""Inputs as every part of the system takes them: float32, not a bit more.

A network sees float32. If `certify` rounded what `lookup` takes as it is, the two could disagree about one input: so an
input that float32 cannot hold is refused everywhere, and nobody rounds in silence.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError


def exact_float32(name: str, x: Any) -> NDArray[np.float32]:
    """Array or tensor, on any device, as float32; an error where that changes a value or the unit is unclear."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() and x.element_size() < 4 else x).numpy()
    try:
        given = np.asarray(x)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"expected {name} as an array of numbers, got {type(x).__name__} ({error})") from error
    if given.dtype.kind in "iub":
        raise ArgumentError(
            f"expected {name} as floats in the network's own units, got {given.dtype}: integers have no unit. For "
            "pixels of 0 to 255 and a network that takes 0 to 1, pass x.astype('float32') / 255"
        )
    if given.dtype.kind != "f":
        raise ArgumentError(f"expected {name} as an array of floats, got {given.dtype}")
    with np.errstate(over="ignore"):
        narrow = given.astype(np.float32)
    if not bool(np.isfinite(narrow).all()):
        raise ArgumentError(f"expected finite {name}, got NaN, infinity or numbers beyond float32")
    if given.dtype.itemsize > 4 and not bool((narrow == given).all()):
        raise ArgumentError(
            f"expected {name} that float32 holds exactly, as the network sees it, got {given.dtype} that it would "
            "round: round it first, with x.astype('float32'), and use that array everywhere"
        )
    return narrow
