"""A data set: inputs, labels and stable example ids."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples of one split.

    x: `n x *shape`, float32, in [0, 1] for images. y: `n` class numbers. ids: `n` numbers that name an example for
    good, whatever subset it is seen in. mean, std: a channel each, for the normalisation inside a network.
    """

    name: str
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    ids: NDArray[np.int64]
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) == 0:
            raise ArgumentError(f"expected a data set with at least one example, got an empty {self.name}")
        if not len(self.x) == len(self.y) == len(self.ids):
            raise ArgumentError(
                f"expected x, y and ids of one length, got {len(self.x)}, {len(self.y)} and {len(self.ids)}"
            )

    def __len__(self) -> int:
        return len(self.x)

    def subset(self, skip: int = 1, most: int | None = None) -> "Dataset":
        """Every skip-th example, at most `most` of them."""
        if skip < 1 or (most is not None and most < 1):
            raise ArgumentError(f"expected skip >= 1 and max >= 1, got skip {skip} and max {most}")
        keep = np.arange(0, len(self), skip)[:most]
        return Dataset(self.name, self.x[keep], self.y[keep], self.ids[keep], self.num_classes, self.mean, self.std)
