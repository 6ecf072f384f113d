"""How far a region extends, and how far it may: about half the way to a blank image."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def extent(theta: Tensor, norm: int) -> Tensor:
    """The typical half-width of a region of gap 1, the mean of its semi-axes in the norm's sense. theta: `... x d`."""
    return theta.square().mean(-1).sqrt() if norm == 2 else theta.mean(-1)


def reach(x: Tensor, norm: int) -> NDArray[np.float64]:
    """Half the distance of each image to the blank one of its mean: `b`; infinite for inputs that are no images.

    A blank image has no class; and regions of half this size around two unrelated images cannot meet.
    """
    if not is_image(tuple(x.shape[1:])):
        return np.full(len(x), np.inf)
    contrast = (x - x.flatten(1).mean(1).view(-1, *(1 for _ in x.shape[1:]))).flatten(1).double()
    return np.asarray(contrast.norm(p=norm, dim=1).cpu().numpy() / 2)


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether inputs have at least height and width, so that there is a blank one."""
    return len(shape) > 1
